"""`hudhud up` from nothing: a database, an API and a key that work, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from hudhud.embedded import find_server
from tests.support.wait import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP = """
from hudhud import Context, Hudhud

app = Hudhud()

@app.handler("quick")
async def quick(ctx: Context) -> None:
    pass
"""


class Upped:
    """A `hudhud up` that runs in a directory, on a free port."""

    def __init__(self, directory: Path) -> None:
        self.place = directory / "embedded"
        self.environment = {**os.environ, "HUDHUD_EMBEDDED_DIRECTORY": str(self.place)}
        self.environment.pop("HUDHUD_DATABASE_URL", None)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._log = directory / "log"
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [*COMMAND, "--port", str(self.port)],
                cwd=directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self) -> str:
        """What it and its children said so far."""
        return self._log.read_text("utf-8")

    @property
    def postmaster(self) -> int:
        """The pid of its PostgreSQL."""
        return int((self.place / "data" / "postmaster.pid").read_text("utf-8").split()[0])

    def client(self) -> httpx.Client:
        """Return a client of its API, with the key that it told."""
        told = dict(line.split(maxsplit=1) for line in self.log.splitlines()[:12])
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            timeout=60,
            headers={"authorization": f"Bearer {told['key'].split()[0]}"},
        )


COMMAND = [sys.executable, "-m", "hudhud.cli.main", "up", "--no-demo"]


@pytest.fixture
def upped(tmp_path: Path) -> Iterator[Upped]:
    """Start everything, with a worker of an application of ours, and wait until it is there."""
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    (tmp_path / "hudhud.toml").write_text('app = "shop:app"\n', "utf-8")
    upped = Upped(tmp_path)
    try:
        until(lambda: "Uvicorn running on" in upped.log and "worker.started" in upped.log, 120)
        yield upped
    finally:
        if upped.process.poll() is None:
            upped.process.kill()
            upped.process.wait()


def test_up_starts_everything_and_ends_it(upped: Upped, tmp_path: Path) -> None:
    with upped.client() as client:
        assert client.get("/v1/jobs").json() == {"jobs": [], "next": None}

    again = subprocess.run(
        [*COMMAND, "--port", "0"],
        cwd=tmp_path,
        env=upped.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 2
    assert f"Another hudhud (pid {upped.process.pid})" in again.stderr
    upped.process.send_signal(signal.SIGINT)
    assert upped.process.wait(60) == 0
    assert find_server(upped.place) is None


def test_a_postgresql_that_is_killed_is_started_again_with_all_it_had(upped: Upped) -> None:
    with upped.client() as client:

        def succeeded() -> int:
            answer = client.get("/v1/jobs", params={"status": "succeeded"})
            return len(answer.json()["jobs"]) if answer.status_code == 200 else 0

        def enqueued() -> bool:
            return client.post("/v1/jobs", json={"type": "quick", "payload": {}}).status_code == 202

        assert enqueued()
        until(lambda: succeeded() == 1)
        killed = upped.postmaster
        os.kill(killed, signal.SIGKILL)
        until(lambda: "PostgreSQL died and is started again" in upped.log, 60)
        until(enqueued, 60)
        until(lambda: succeeded() > 1, 60)
    assert upped.postmaster != killed
    upped.process.send_signal(signal.SIGTERM)
    assert upped.process.wait(60) == 0
    assert find_server(upped.place) is None


def test_a_postgresql_that_does_not_come_back_ends_everything_in_one_line(upped: Upped) -> None:
    (upped.place / "data" / "PG_VERSION").write_text("9\n", "ascii")
    os.kill(upped.postmaster, signal.SIGKILL)
    assert upped.process.wait(120) == 2
    (told,) = [line for line in upped.log.splitlines() if line.startswith("hudhud: ")]
    assert "was made by PostgreSQL 9" in told
    until(lambda: not answers(upped.port))


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
