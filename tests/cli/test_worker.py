"""`hudhud worker` as a process: runs jobs, stops in order, is kept alive, stays small."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from tests.support.wait import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.server import Server
    from tests.support.verbs import Verbs

    Start = Callable[..., "Running"]

APP = """
import asyncio
from pathlib import Path
from hudhud import Context, Hudhud

app = Hudhud()
NUMBER = 1

@app.handler("add", queue="math")
async def add(ctx: Context, a: int, b: int) -> int:
    return a + b

@app.handler("slow")
async def slow(ctx: Context, seconds: float) -> None:
    await asyncio.sleep(seconds)

@app.handler("number")
async def number(ctx: Context) -> int:
    return NUMBER
"""
START = "from hudhud.cli.main import main; main()"
RSS_KILOBYTES_MAX = 60 * 1024


class Running:
    """A `hudhud` that runs, and what it said."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        """What it wrote to stderr and stdout so far."""
        return self._log.read_text("utf-8")

    @property
    def children(self) -> list[int]:
        """The pids of the processes that it keeps alive."""
        pid = self.process.pid
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def says(self, text: str, times: int = 1) -> None:
        """Wait until it has said something."""
        until(lambda: self.log.count(text) >= times, 60)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture
def start(database: str, server: Server, tmp_path: Path) -> Iterator[Start]:
    """Start `hudhud worker` and whatever else, in a directory with an application."""
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    environment = {
        **os.environ,
        "HUDHUD_DATABASE_URL": database,
        "HUDHUD_DIRECT_URL": server.direct(database),
        "HUDHUD_EMBEDDED_DIRECTORY": str(tmp_path / "embedded"),
    }
    started: list[Running] = []

    def run(*words: str, program: tuple[str, ...] = ("-m", "hudhud.cli.main")) -> Running:
        log = tmp_path / f"log{len(started)}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *program, *words],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        started.append(Running(process, log))
        return started[-1]

    yield run
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def ended(verbs: Verbs, job_id: object) -> Any:  # noqa: ANN401 - whatever the handler returned
    def result() -> list[Any]:
        return verbs.values(
            "select coalesce(result, 'null') from hudhud.outcome_all"
            " where job_id = %s and outcome = 'succeed'",
            job_id,
        )

    return until(result)[0]


def get(port: int, path: str) -> tuple[int, str]:
    answer = httpx.get(f"http://127.0.0.1:{port}{path}", timeout=30)
    return answer.status_code, answer.text


def port_of(running: Running) -> int:
    running.says("health port")
    return int(running.log.partition("health port http://127.0.0.1:")[2].split()[0])


def test_a_worker_serves_the_queues_of_its_handlers_and_stops_in_order(
    start: Start, verbs: Verbs
) -> None:
    worker = start("worker", "shop:app")
    assert ended(verbs, verbs.enqueue("add", {"a": 9007199254740993, "b": 1}, queue="math")) == (
        9007199254740994
    )
    running = verbs.enqueue("slow", {"seconds": 0.5})
    until(lambda: verbs.status(running).status == "running")
    assert worker.stop() == 0
    assert verbs.status(running).status == "succeeded"


def test_a_worker_serves_only_the_queues_that_are_named(start: Start, verbs: Verbs) -> None:
    other = verbs.enqueue("add", {"a": 1, "b": 1}, queue="math")
    worker = start("worker", "shop:app", "--queues", "default, extra")
    ended(verbs, verbs.enqueue("slow", {"seconds": 0}))
    assert verbs.status(other).status == "pending"
    assert worker.stop(signal.SIGINT) == 0


def test_an_idle_worker_stays_below_sixty_megabytes(start: Start, verbs: Verbs) -> None:
    worker = start("worker", "shop:app", "--health-port", "0")
    ended(verbs, verbs.enqueue("slow", {"seconds": 0}))
    status = Path(f"/proc/{worker.process.pid}/status").read_text("ascii")
    rss_kilobytes = int(status.partition("VmRSS:")[2].split()[0])
    assert rss_kilobytes < RSS_KILOBYTES_MAX


def test_the_health_port_tells_alive_ready_and_counts(start: Start, verbs: Verbs) -> None:
    port = port_of(start("worker", "shop:app", "--health-port", "0"))
    assert get(port, "/healthz") == (200, "ok\n")
    until(lambda: get(port, "/readyz") == (200, "ok\n"))
    assert get(port, "/nothing")[0] == 404
    ended(verbs, verbs.enqueue("slow", {"seconds": 0}))
    settled = 'hudhud_event_amounts_total{event="run.finished",of="settled"} 1'
    until(lambda: settled in get(port, "/metrics")[1])


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_health_port_that_is_taken_ends_with_2(start: Start, processes: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ("--health-port", str(port), "--processes", processes)
        worker = start("worker", "shop:app", *words)
        assert worker.process.wait(60) == 2
    assert f"hudhud: Port {port} of 127.0.0.1 is taken. Choose another --health-port." in worker.log
    assert "Traceback" not in worker.log


def test_an_address_that_the_health_port_cannot_have_ends_with_2(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "hudhud.toml").write_text('[worker]\nhealth_host = "192.0.2.1"\n', "utf-8")
    worker = start("worker", "shop:app", "--health-port", "0")
    assert worker.process.wait(60) == 2
    assert "hudhud: The health port cannot be opened: " in worker.log
    assert "Traceback" not in worker.log


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Name your application"),
        (("shop",), "Name your application"),
        (("nothing:app",), "There is no module nothing"),
        (("shop:nothing",), "no Hudhud application named nothing"),
    ],
)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_application_that_cannot_be_found_ends_with_2(
    *, start: Start, words: tuple[str, ...], told: str, processes: str
) -> None:
    worker = start("worker", *words, "--processes", processes)
    assert worker.process.wait(60) == 2
    assert told in worker.log


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("queues", [",,", "", " , "])
def test_queues_that_name_none_end_with_2(*, start: Start, queues: str, processes: str) -> None:
    worker = start("worker", "shop:app", "--queues", queues, "--processes", processes)
    assert worker.process.wait(60) == 2
    (line,) = worker.log.splitlines()
    assert "--queues names no queue" in line


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("name", ["!x", "a" * 64, "ä" * 32, "\udcff"])
def test_a_queue_that_no_job_can_have_ends_with_2(
    *, start: Start, verbs: Verbs, name: str, processes: str
) -> None:
    if name.isprintable():
        with pytest.raises(psycopg.Error, match="queue must have"):
            verbs.enqueue("slow", {"seconds": 0}, queue=name)
    worker = start("worker", "shop:app", "--queues", f"default,{name}", "--processes", processes)
    assert worker.process.wait(60) == 2
    (line,) = worker.log.splitlines()
    assert line.startswith(f"hudhud: worker.queues (argument) names {name!r}, which no job")


@pytest.mark.parametrize("name", ["", " ", "!x", "a\\u0000"])
def test_a_queue_in_the_file_that_no_job_can_have_ends_with_2(
    start: Start, tmp_path: Path, name: str
) -> None:
    (tmp_path / "hudhud.toml").write_text(f'[worker]\nqueues = ["default", "{name}"]\n', "utf-8")
    worker = start("worker", "shop:app")
    assert worker.process.wait(60) == 2
    (line,) = worker.log.splitlines()
    assert f"worker.queues ({tmp_path / 'hudhud.toml'}) names " in line


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_queue_that_is_named_twice_is_claimed_from_once(
    start: Start, verbs: Verbs, processes: str
) -> None:
    longest = "ä" * 31 + "a"
    named = f"default,math,default, {longest},math"
    worker = start("worker", "shop:app", "--queues", named, "--processes", processes)
    worker.says("worker.started", int(processes))
    assert verbs.values("select distinct queues from hudhud.worker") == [
        ["default", "math", longest]
    ]
    ended(verbs, verbs.enqueue("slow", {"seconds": 0}, queue=longest))
    assert worker.stop() == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_application_without_handlers_ends_with_2(
    start: Start, tmp_path: Path, processes: str
) -> None:
    (tmp_path / "bare.py").write_text("from hudhud import Hudhud\napp = Hudhud()\n", "utf-8")
    worker = start("worker", "bare:app", "--processes", processes)
    assert worker.process.wait(60) == 2
    assert "bare:app has no handlers" in worker.log


def test_a_schema_that_does_not_fit_ends_with_4(start: Start, verbs: Verbs) -> None:
    verbs.connection.execute("insert into hudhud.schema_version (number, name) values (9999, 'x')")
    worker = start("worker", "shop:app", "--processes", "2")
    assert worker.process.wait(60) == 4
    assert "9999" in worker.log


def test_a_killed_worker_of_several_is_started_again(start: Start, verbs: Verbs) -> None:
    supervisor = start("worker", "shop:app", "--processes", "2")
    supervisor.says("worker.started", 2)
    victim = supervisor.children[0]
    os.kill(victim, signal.SIGKILL)
    supervisor.says("worker.started", 3)

    children = supervisor.children
    assert len(children) == 2
    assert victim not in children
    ended(verbs, verbs.enqueue("slow", {"seconds": 0}))
    assert supervisor.stop() == 0
    assert not any(Path(f"/proc/{one}").exists() for one in children)


@pytest.mark.parametrize("reload", [(), ("--reload",)])
def test_a_worker_that_cannot_be_started_is_told_and_tried_again(
    start: Start, verbs: Verbs, *, tmp_path: Path, reload: tuple[str, ...]
) -> None:
    """The system has no process or memory to give just now; or the program is being replaced."""
    python = tmp_path / "python"
    command = f"import sys; sys.executable = {str(python)!r}; " + START
    supervisor = start("worker", "shop:app", "--processes", "2", *reload, program=("-c", command))
    for number in (1, 2):
        supervisor.says(f"worker {number} cannot be started", 2)
    assert "tried again in 0.4 s" in supervisor.log
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', "ascii")
    python.chmod(0o700)
    supervisor.says("worker.started", 2)
    ended(verbs, verbs.enqueue("slow", {"seconds": 0}))
    assert supervisor.stop() == 0


def test_workers_stop_in_order_when_their_supervisor_is_killed(start: Start, verbs: Verbs) -> None:
    supervisor = start("worker", "shop:app", "--processes", "2")
    supervisor.says("worker.started", 2)
    running = verbs.enqueue("slow", {"seconds": 0.5})
    until(lambda: verbs.status(running).status == "running")

    supervisor.process.kill()
    supervisor.says("worker.stopped", 2)
    assert verbs.status(running).status == "succeeded"


def test_the_password_is_not_in_the_children_command_lines(start: Start, database: str) -> None:
    supervisor = start("worker", "shop:app", "--processes", "2", "--database-url", database)
    supervisor.says("worker.started", 2)
    for child in supervisor.children:
        assert database not in Path(f"/proc/{child}/cmdline").read_text("utf-8")


def test_reload_restarts_when_a_file_changes_and_waits_out_a_broken_one(
    start: Start, verbs: Verbs, tmp_path: Path
) -> None:
    developer = start("worker", "shop:app", "--reload")
    developer.says("worker.started")
    assert ended(verbs, verbs.enqueue("number")) == 1

    (tmp_path / "shop.py").write_text(APP + "\nthis is no Python\n", "utf-8")
    developer.says("started again when a file changes")
    (tmp_path / "shop.py").write_text(APP.replace("NUMBER = 1", "NUMBER = 22"), "utf-8")
    developer.says("worker.started", 2)
    assert ended(verbs, verbs.enqueue("number")) == 22
    assert developer.stop() == 0


def test_serve_answers_and_stops(start: Start) -> None:
    face = start("serve", "--port", "0")
    face.says("Uvicorn running on")
    port = int(face.log.partition("Uvicorn running on http://127.0.0.1:")[2].split()[0])
    status, body = get(port, "/readyz")
    assert (status, json.loads(body)) == (200, {"status": "ready"})
    assert get(port, "/v1/jobs")[0] == 401
    face.stop()
