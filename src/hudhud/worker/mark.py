"""The low-water mark of a scan range: a claim begins there and need not walk what is gone."""

from __future__ import annotations

from collections import deque

# While a writer stays open the mark would stand still; after so many claims it goes on all the
# same, and the look from the true start finds what that writer commits late.
CLAIMS_WAITED_MAX = 20


class Mark:
    """One range's mark. It moves only when nothing that commits late can lie below it.

    A claim takes rows up to some seq under a transaction id. Rows below that seq which it could
    not see belong to transactions that began before it, because a row takes its seq only after its
    transaction has an id. Once a later claim's snapshot has no open transaction that old (its xmin
    has reached the id), that later claim has seen them all.

    Attributes:
        seq: Rows at or below it need not be looked at, but by a look from the true start.
    """

    __slots__ = ("_waiting", "seq")

    def __init__(self) -> None:
        self.seq = 0
        self._waiting: deque[tuple[int, int]] = deque()

    def visited(self, top: int | None, *, xid: int, xmin: int, was_full: bool) -> None:
        """Take note of a claim that looked at this range.

        Args:
            top: Highest seq that it took; None when it took nothing.
            xid: The claim's transaction id.
            xmin: The oldest transaction id that was open when the claim looked.
            was_full: Whether it took all it was allowed to: then rows between its top and older
                tops may be left.
        """
        waiting = self._waiting
        while waiting and (waiting[0][1] <= xmin or len(waiting) >= CLAIMS_WAITED_MAX):
            reached, _ = waiting.popleft()
            if was_full and top is not None:
                reached = min(reached, top)
            self.seq = max(self.seq, reached)
        if top is not None:
            waiting.append((top, xid))
