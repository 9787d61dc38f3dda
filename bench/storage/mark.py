"""The low-water mark of one scan range."""

from __future__ import annotations

import time
from collections import deque
from typing import Generic, TypeVar

Place = TypeVar("Place")


class Mark(Generic[Place]):
    """Where a scan may begin: moved only when all that could still commit below it has ended.

    A claim returns the highest place it took and its transaction id; the mark moves there once a
    later claim's snapshot xmin has reached that id. Beside it stands a look from the true start,
    seldom enough to cost one hundredth of the time.
    """

    def __init__(self, start: Place) -> None:
        """Begin at the true start."""
        self.start = start
        self.place = start
        self.open: deque[tuple[Place, int]] = deque()
        self.next_look = time.perf_counter() + 1
        self.look_began: float | None = None
        self.looks: list[float] = []

    def get(self) -> Place:
        """Place to scan from."""
        now = time.perf_counter()
        if now >= self.next_look:
            self.look_began = now
            return self.start
        return self.place

    def seen(self, top: Place | None, xid: int, xmin: int) -> None:
        """Account for a claim's answer."""
        while self.open and self.open[0][1] <= xmin:
            self.place = self.open.popleft()[0]
        if self.look_began is not None:
            self.end_look()
        elif top is not None:
            self.open.append((top, xid))

    def end_look(self) -> None:
        """A look from the start came back, with jobs or without."""
        now = time.perf_counter()
        if self.look_began is not None:
            took = now - self.look_began
            self.looks.append(took)
            self.next_look = now + max(1.0, 100 * took)
            self.look_began = None
