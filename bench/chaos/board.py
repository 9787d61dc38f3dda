"""What a worker is at, in memory that outlives it: the last word of a killed process."""

from __future__ import annotations

import mmap
import threading
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Final
from uuid import UUID

from bench.chaos.plan import Window

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


class Field(IntEnum):
    """The numbers of a slot."""

    READY = 0
    WORKER_HIGH = 1
    WORKER_LOW = 2
    CLAIMS = 3  # answers that brought jobs, so far
    SETTLED = 4  # runs whose end is committed, so far
    CLAIMING = 5  # claims at the server now
    WORKING = 6  # handlers that run now
    TRANSACTING = 7
    FINISHING = 8
    CALLING = 9  # effects that are under way now
    SENDING = 10  # of those, so many between their last check and the first byte
    FIRED = 11  # failpoints that did something, so far
    ARMED = 12  # the harness's order: a failpoint's number, from 1; 0 for none
    ACTION = 13  # and what is to happen there
    CHECKING = 14  # of the effects, so many that have the client, and have not checked yet


_AS_FIELD: Final = {
    Window.CLAIMING: Field.CLAIMING,
    Window.WORKING: Field.WORKING,
    Window.TRANSACTING: Field.TRANSACTING,
    Window.FINISHING: Field.FINISHING,
    Window.CALLING: Field.CALLING,
    Window.CHECKING: Field.CHECKING,
    Window.SENDING: Field.SENDING,
}
_FIELDS: Final = 16  # two cache lines, so that no two workers write to one
_BYTES: Final = 8
_LOW_BITS: Final = (1 << 64) - 1


class Slot:
    """The board of one process. It writes; whoever else has the file open reads."""

    def __init__(self, numbers: memoryview) -> None:
        self._numbers = numbers
        self._lock = threading.Lock()

    def __getitem__(self, field: Field) -> int:
        return int(self._numbers[field])

    def add(self, field: Field, amount: int) -> None:
        """Add to a number; from any thread of the one process that writes."""
        with self._lock:
            self._numbers[field] += amount

    @contextmanager
    def during(self, field: Field) -> Generator[None]:
        """Count one more while the block lasts."""
        self.add(field, 1)
        try:
            yield
        finally:
            self.add(field, -1)

    def order(self, point: int, action: int) -> None:
        """Say what is to happen at which failpoint; the one thing that another process writes."""
        self._numbers[Field.ACTION] = action
        self._numbers[Field.ARMED] = point

    def take_order(self, point: int) -> bool:
        """Take the order for a point, once; return whether it was there."""
        with self._lock:
            is_ours = self._numbers[Field.ARMED] == point
            if is_ours:
                self._numbers[Field.ARMED] = 0
            return is_ours

    def clear(self) -> None:
        """Begin anew, as a new process does."""
        for field in Field:
            self._numbers[field] = 0

    def be_ready(self, worker_id: UUID) -> None:
        """Say that this worker claims from now on, and under which id."""
        self._numbers[Field.WORKER_HIGH] = worker_id.int >> 64
        self._numbers[Field.WORKER_LOW] = worker_id.int & _LOW_BITS
        self._numbers[Field.READY] = 1

    @property
    def worker_id(self) -> UUID:
        """The id of the worker that said it was ready."""
        return UUID(int=self[Field.WORKER_HIGH] << 64 | self[Field.WORKER_LOW])

    @property
    def ends_runs(self) -> bool:
        """Whether the end of a run, held until then, is on its way to the database."""
        return bool(self[Field.FINISHING] or self[Field.TRANSACTING])

    def is_in(self, window: Window, claims_before: int) -> bool:
        """Whether the worker is in a window now, with work in its hands.

        Args:
            window: Which.
            claims_before: Its CLAIMS when the watching began.
        """
        if window is Window.CLAIMED:
            return self[Field.CLAIMS] != claims_before
        return bool(self[_AS_FIELD[window]] and (self[Field.WORKING] or self.ends_runs))


class Board:
    """A file with one slot for each worker."""

    def __init__(self, path: Path, slots: int) -> None:
        """Open the board at a path, making it if need be."""
        size = slots * _FIELDS * _BYTES
        with path.open("a+b") as file:
            if file.tell() < size:
                file.truncate(size)
            self._memory = mmap.mmap(file.fileno(), size)
        self._numbers = memoryview(self._memory).cast("Q")

    def slot(self, number: int) -> Slot:
        """Return the slot of a worker, counted from 0."""
        return Slot(self._numbers[number * _FIELDS : (number + 1) * _FIELDS])
