"""What a measured process shows to the one that measures it: a few numbers in shared memory."""

from __future__ import annotations

import json
import mmap
import struct
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

# Where a measured process finds its board.
VARIABLE: Final = "BENCH_BOARD"
_BYTES: Final = 4096
_COUNT: Final = struct.Struct("q")
_FIRST: Final = struct.Struct("d")
_START: Final = struct.Struct("qd")


class Board:
    """Jobs started so far, when the first was, and when each marked one was.

    Instants are monotonic seconds, which all processes of a machine share.
    """

    def __init__(self, path: Path) -> None:
        """Open the board at a path, making it if need be."""
        self.path = path
        self._starts = path.with_suffix(".starts").open("a+b", buffering=0)
        with path.open("a+b") as file:
            file.truncate(_BYTES)
            self._memory = mmap.mmap(file.fileno(), _BYTES)
        self._own = 0

    def hit(self, mark: int | None) -> int:
        """Take note of a job's start; return how many that makes. For one process only."""
        if not self._own:
            _FIRST.pack_into(self._memory, _COUNT.size, time.monotonic())
        self._own += 1
        _COUNT.pack_into(self._memory, 0, self._own)
        if mark is not None:
            self._starts.write(_START.pack(mark, time.monotonic()))
        return self._own

    @property
    def count(self) -> int:
        """Jobs started so far."""
        return int(_COUNT.unpack_from(self._memory, 0)[0])

    @property
    def first_at(self) -> float:
        """When the first job started; 0 before that."""
        return float(_FIRST.unpack_from(self._memory, _COUNT.size)[0])

    def starts(self) -> dict[int, float]:
        """Return when each marked job started first."""
        self._starts.seek(0)
        found: dict[int, float] = {}
        for mark, at in _START.iter_unpack(self._starts.read()):
            found.setdefault(mark, at)
        return found

    def close(self) -> None:
        """Let go of it."""
        self._memory.close()
        self._starts.close()


def tell(**line: object) -> None:
    """Tell the measuring process something once, as a line of JSON on stdout."""
    print(json.dumps(line), flush=True)
