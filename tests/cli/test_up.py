"""`hudhud up` from nothing: a database, an API and a key that work, and nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx

from hudhud.embedded import find_server
from tests.support.wait import until

if TYPE_CHECKING:
    from pathlib import Path


def test_up_starts_everything_and_ends_it(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = tmp_path / "embedded"
    log = tmp_path / "log"
    words = ["up", "--no-demo", "--port", str(port)]
    environment = {**os.environ, "HUDHUD_EMBEDDED_DIRECTORY": str(place)}
    environment.pop("HUDHUD_DATABASE_URL", None)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "hudhud.cli.main", *words],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: "Uvicorn running on" in log.read_text("utf-8"), 120)
        told = dict(line.split(maxsplit=1) for line in log.read_text("utf-8").splitlines()[:12])
        key = told["key"].split()[0]
        answer = httpx.get(
            f"http://127.0.0.1:{port}/v1/jobs", headers={"authorization": f"Bearer {key}"}
        )
        assert answer.json() == {"jobs": [], "next": None}

        again = subprocess.run(
            [sys.executable, "-m", "hudhud.cli.main", "up", "--no-demo", "--port", "0"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert again.returncode == 2
        assert f"Another hudhud (pid {process.pid})" in again.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert find_server(place) is None
