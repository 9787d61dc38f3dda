"""The nursery as the harness talks to it: orders out, news in."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.chaos.place import Place

ROOT: Final = Path(__file__).resolve().parents[2]
END_SECONDS_MAX: Final = 20.0


class Births:
    """The nursery's process; for one thread.

    Raises:
        RuntimeError: From any method, when the nursery has ended by itself.
    """

    def __init__(self, directory: Path, *, has_apis: bool = False) -> None:
        """Start it; what it and its children say goes to `workers.log` of a directory.

        Args:
            directory: Of the run.
            has_apis: Whether it should be ready to bear API processes.
        """
        apis = ["bench.chaos.api"] if has_apis else []
        with (directory / "workers.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.chaos.nursery", *apis],
                bufsize=0,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us; we then end it in order
            )
        self._unread = b""

    def start(self, place: Place, slot: int, *, lease_seconds: int) -> None:
        """Order a process for a slot; the news will tell its pid."""
        self._order(start=slot, lease_seconds=lease_seconds, place=place.text())

    def bury(self, pid: int) -> None:
        """Let go of a pid that has ended; the news will tell its exit code."""
        self._order(bury=pid)

    def news(self, within_seconds: float) -> Iterator[dict[str, int]]:
        """Yield what came, waiting for the first of it at most so long."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], within_seconds)[0]:
            return
        chunk = self._process.stdout.read(65_536)
        if not chunk:
            self._fail()
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)

    def close(self) -> None:
        """End it, and with it every worker that is left."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS_MAX)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def _order(self, **words: int | str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
        except BrokenPipeError:
            self._fail()

    def _fail(self) -> None:
        message = f"the nursery ended with {self._process.wait()}; see workers.log"
        raise RuntimeError(message)
