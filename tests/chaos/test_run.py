"""A chaos run from the command line: short, real, and gone without a trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from bench.chaos.finding import Breach
from hudhud.embedded import find_server
from tests.support.wait import until

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
SECONDS = 240  # liveness only
WORKERS = 4


def begin(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.chaos", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def worker_pids(directory: Path) -> Sequence[int]:
    url = find_server(directory / "server")
    if url is None:
        return []
    try:
        with psycopg.connect(url) as connection:
            return [pid for (pid,) in connection.execute("select pid from hudhud.worker")]
    except psycopg.Error:
        return []  # it is only just starting


def test_five_kills_and_every_promise_kept() -> None:
    run = begin("--kills", "5", "--seed", "1", "--json")
    out, err = run.communicate(timeout=SECONDS)
    assert run.returncode == 0, err
    told: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert told["kills"] == 5
    assert told["kills_in_flight"] >= 4
    assert told["acknowledged"] > 100
    assert told["runs_lost"] > 0
    assert not any(told[breach.value] for breach in Breach), err
    assert min(told["server_kills"], told["stops"], told["terminated_sessions"]) >= 1
    assert min(told["effects"], told["acts"], told["events"], told["failpoints_hit"]) >= 1
    assert told["events_routed"] == 2 * told["events"]


def test_a_run_that_is_ended_leaves_nothing_behind(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    run = begin("--kills", "50", "--keep", str(directory))
    until(lambda: len(worker_pids(directory)) >= WORKERS, SECONDS)
    pids = worker_pids(directory)
    assert all(is_alive(pid) for pid in pids)
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=SECONDS)
    assert run.returncode == 128 + signal.SIGTERM
    assert find_server(directory / "server") is None
    assert not any(is_alive(pid) for pid in pids)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
