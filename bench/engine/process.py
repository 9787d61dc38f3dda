"""Processes that are measured from outside, each with its board."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Final, cast

from bench.engine import usage
from bench.engine.board import VARIABLE, Board

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from contextlib import AbstractContextManager

WAIT_SECONDS_MAX: Final = 300
POLL_SECONDS: Final = 0.002
ROOT: Final = Path(__file__).resolve().parents[2]
_COMMAND_LINE: Final = "from hudhud.cli.main import main; main()"


class Process:
    """A running process.

    Attributes:
        board: What it shows while it runs.
        pid: Its process id.
    """

    def __init__(self, name: str, board: Board, process: subprocess.Popen[str]) -> None:
        self.board = board
        self.pid = process.pid
        self._process = process
        self._name = name
        assert process.stdout is not None
        self._output: IO[str] = process.stdout

    def told(self) -> dict[str, float]:
        """Wait for its next line of JSON and return it.

        Raises:
            RuntimeError: It ended instead; what went wrong is on stderr.
        """
        line = self._output.readline()
        if not line:
            message = f"{self._name} ended with {self._process.wait()}"
            raise RuntimeError(message)
        return cast("dict[str, float]", json.loads(line))

    def has_told(self) -> bool:
        """Whether a line of it waits to be read, or it has ended."""
        return bool(select.select([self._output], [], [], 0)[0])

    def wait_for(self, count: int) -> None:
        """Wait until so many jobs have started.

        Raises:
            RuntimeError: It ended, or it takes too long.
        """
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while self.board.count < count:
            if self._process.poll() is not None or time.monotonic() > deadline:
                message = f"{self._name}: only {self.board.count} of {count} jobs started"
                raise RuntimeError(message)
            time.sleep(POLL_SECONDS)

    def resident_mib(self, *, peak: bool = False) -> float:
        """Return its resident memory, now or the most that it ever was."""
        return usage.resident_mib(self.pid, peak=peak)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that it has used, its threads and children included."""
        return usage.tree_cpu_seconds(self.pid)


def worker(
    dsn: str,
    *,
    concurrency: int,
    application: str = "app",
    connections: int | None = None,
    queues: str | None = None,
) -> AbstractContextManager[Process]:
    """Run `hudhud worker` as a user would.

    Args:
        dsn: Of the database.
        concurrency: Runs at once.
        application: The module of this package that has it.
        connections: For `ctx.transaction()`, at once; None for as many as there are by default.
        queues: That it serves; None for those of its handlers.
    """
    words = ["worker", f"bench.engine.{application}:app", "--concurrency", str(concurrency)]
    words += [] if queues is None else ["--queues", queues]
    settings = {} if connections is None else {"HUDHUD_WORKER_CONNECTIONS": str(connections)}
    return running("worker", dsn, ["-c", _COMMAND_LINE, *words], settings=settings)


def module(name: str, dsn: str, *arguments: object) -> AbstractContextManager[Process]:
    """Run a module of this package; its first arguments are the DSN and the board."""
    return running(name, dsn, ["-m", f"bench.engine.{name}", *map(str, arguments)])


@contextmanager
def running(
    name: str,
    dsn: str,
    words: Sequence[str],
    *,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Generator[Process]:
    """Run Python with some words, database and board in its environment; stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="hudhud-bench-") as folder:
        board = Board(Path(folder) / "board")
        with (Path(folder) / "log").open("w+", encoding="utf-8") as log:
            process = subprocess.Popen(
                [sys.executable, *words],
                cwd=ROOT,
                env={
                    **os.environ,
                    **settings,
                    "HUDHUD_DATABASE_URL": dsn,
                    VARIABLE: str(board.path),
                },
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            try:
                yield Process(name, board, process)
            except BaseException:
                log.seek(0)
                sys.stderr.write(log.read())
                raise
            finally:
                process.send_signal(signal.SIGTERM)
                process.communicate()
                board.close()
