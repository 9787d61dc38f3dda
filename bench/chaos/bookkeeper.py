"""The ledger's process as the harness sees it: started, ended, and its journal read."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import Self

ROOT: Final = Path(__file__).resolve().parents[2]
JOURNAL: Final = "ledger.jsonl"
START_SECONDS_MAX: Final = 20.0
END_SECONDS_MAX: Final = 20.0


@dataclass(frozen=True, slots=True)
class Manners:
    """How the ledger behaves.

    Attributes:
        dedups: Whether it acts upon a key once.
        share: Of calls that it does not take well.
        late_seconds: How late it answers or acts then: well below what effects leave it
            (`settle_seconds`), for a busy machine is late as well.
    """

    dedups: bool = False
    share: float = 0.2
    late_seconds: float = 0.4


@dataclass(frozen=True, slots=True)
class Act:
    """One line of the journal: something done outside, or a repeat that was known again.

    Attributes:
        entry: Its number; a repeat has that of the first.
        at: Monotonic second at which it was done.
        asked_at: Monotonic second of the caller's last check.
        worker, pid: Of the caller; `job_id` and `run`, too.
    """

    entry: int
    key: str
    at: float
    is_repeat: bool
    worker: int
    pid: int
    job_id: str
    run: int
    asked_at: float


class Bookkeeper:
    """A ledger in a process of its own.

    Attributes:
        port: Where it serves, on 127.0.0.1.
    """

    def __init__(self, directory: Path, manners: Manners, *, seed: int) -> None:
        """Start it; the journal is a file of the directory, what it says goes to `ledger.log`.

        Raises:
            RuntimeError: It does not start.
        """
        self._journal = directory / JOURNAL
        self._read_bytes = 0
        self._acts: list[Act] = []
        self._entries: dict[str, int] = {}
        habit = "dedups" if manners.dedups else "repeats"
        with (directory / "ledger.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *("-m", "bench.chaos.ledger"),
                    *(str(self._journal), str(seed), habit),
                    *(str(manners.share), str(manners.late_seconds)),
                ],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us; we then end it in order
            )
        assert self._process.stdout is not None
        select.select([self._process.stdout], [], [], START_SECONDS_MAX)
        if self._process.poll() is not None:
            message = "the ledger does not start; see ledger.log (--keep)"
            raise RuntimeError(message)
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS_MAX)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def acts(self) -> list[Act]:
        """Return the journal, in its order."""
        with self._journal.open("rb") as file:
            file.seek(self._read_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is just being written
                self._read_bytes += len(line)
                said = json.loads(line)
                self._acts.append(Act(**said.pop("who"), **said))
                self._entries.setdefault(said["key"], said["entry"])
        return self._acts[:]

    def entry_of(self, key: str) -> int | None:
        """Return the first entry of a key; None when it was not acted upon."""
        self.acts()
        return self._entries.get(key)
