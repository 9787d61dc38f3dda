"""The slots of one kind of handler: who has one, who waits for one, how many more may come."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hudhud.worker.context import Context

# How much work may be claimed ahead of free slots: no hoarding, and no slot that stands empty
# while a claim is on its way.
AHEAD_SECONDS: Final = 0.2
# What was finished in each of so many measures counts, not what came in one burst: ten long runs
# that end together do not make a worker a fast one.
MEASURES: Final = 3


class Slots:
    """The slots of the event loop, of the threads, or of the processes.

    Attributes:
        limit: Runs at once.
        taken: Runs that have a slot now.
        waiting: Runs that were claimed and have none yet, in the order they will start.
        ended: Runs that ended since the last measure.
    """

    __slots__ = ("_ahead", "_rates", "ended", "limit", "taken", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self.waiting: deque[Context] = deque()
        self.ended = 0
        self._ahead = 0
        self._rates: deque[float] = deque([0.0] * MEASURES, MEASURES)

    def room(self) -> int:
        """Return how many more runs may be claimed: free slots and what 200 ms will free.

        None while what waits is enough for half of that time: else each run that ends would be
        followed by a claim of one job. Below 0: so many too many are waiting.
        """
        room = self.limit + self._ahead - self.taken - len(self.waiting)
        return min(room, 0) if 2 * len(self.waiting) > self._ahead else room

    def measure(self, seconds: float) -> None:
        """Take the rate of the last so many seconds."""
        self._rates.append(self.ended / seconds)
        self._ahead = int(min(self._rates) * AHEAD_SECONDS)
        self.ended = 0
