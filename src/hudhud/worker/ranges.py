"""The scan ranges of one queue as a claimer knows them: which to look at next, and for how much."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from hudhud.worker.handler import KINDS
from hudhud.worker.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hudhud.store.runs import Claimed
    from hudhud.worker.handler import Kind

# Ranges without work that one claim also looks at, so that a quiet tenant is found in rotation.
COLD_RANGES_MAX: Final = 32
# How often a range is tried whose jobs have, as far as we know, no slot here; and how often any
# of such ranges is: a try that finds the same again is a claim and a hand-back for nothing.
PROBE_SECONDS: Final = 1.0
PROBES_PER_SECOND: Final = 8
_UNKNOWN: Final[frozenset[Kind]] = frozenset(KINDS)
_ASYNC: Final[frozenset[Kind]] = frozenset({"async"})


@dataclass(slots=True, eq=False)
class Range:
    """One scan range: a lane of a tenant in this queue.

    Attributes:
        lane: 0 (critical) to 3 (bulk).
        tenant_id: Whose jobs they are.
        mark: Where the next claim of it begins.
        kinds: Which kinds of handlers its jobs have had; all, until one was seen.
        probe_at: Monotonic second from which it may be tried although a kind has no room.
    """

    lane: int
    tenant_id: str
    mark: Mark = field(default_factory=Mark)
    kinds: frozenset[Kind] = _UNKNOWN
    probe_at: float = 0.0


class Ranges:
    """Those that had work when they were last looked at, and the others; each in rotation."""

    def __init__(self) -> None:
        self._hot: deque[Range] = deque()
        self._cold: deque[Range] = deque()
        self._probe_at = 0.0

    def __len__(self) -> int:
        return len(self._hot) + len(self._cold)

    @property
    def cold(self) -> int:
        """How many had nothing when they were last looked at."""
        return len(self._cold)

    def add(self, lane: int, tenant_id: str) -> None:
        """Take in a range that is new."""
        self._hot.append(Range(lane, tenant_id))

    def plan(self, rooms: Mapping[Kind, int], jobs_max: int) -> list[tuple[Range, int]]:
        """Choose what the next claim looks at, urgent lanes first, and how much of each it takes.

        Ranges that had work share all but an eighth of the room; the others are looked at in
        rotation. No more is taken than there is room for, whatever kind the jobs are of; a range
        whose jobs have no room is left to other workers, but for one job a second, because what
        stands there may have changed.

        Returns:
            Empty when there is no room for anything, or nothing to look at.
        """
        room = min(max(rooms.values()), jobs_max)
        if room <= 0:
            return []
        amount = min(len(self._cold), COLD_RANGES_MAX, max(1, room // 8))
        cold = list(islice(self._cold, 0 if self._hot and room == 1 else amount))
        self._cold.rotate(-len(cold))
        for_cold = 0
        if cold:
            for_cold = len(cold) * max(1, room // (8 * len(cold))) if self._hot else room
        hot = list(islice(self._hot, max(1, room - for_cold)))
        self._hot.rotate(-len(hot))
        planned = [(one, (room - for_cold) // len(hot)) for one in hot]
        planned += [(one, max(1, for_cold // len(cold))) for one in cold]
        return sorted(self._fitted(planned, dict(rooms)), key=_lane)

    def note(self, planned: Iterable[tuple[Range, int]], claimed: Claimed) -> None:
        """Move the marks, and move ranges between hot and cold by what was found."""
        found = zip(planned, claimed.tops or (), claimed.counts or (), strict=True)
        for (one, quantum), top, count in found:
            one.mark.visited(top, xid=claimed.xid, xmin=claimed.xmin, was_full=count >= quantum)
            if count and one in self._cold:
                self._cold.remove(one)
                self._hot.append(one)
            elif not count and one in self._hot:
                self._hot.remove(one)
                self._cold.append(one)

    def note_kinds(
        self,
        planned: Sequence[tuple[Range, int]],
        counts: Sequence[int],
        *,
        kinds: Mapping[str, set[Kind]],
        rooms: Mapping[Kind, int],
    ) -> None:
        """Learn what the jobs of a claim were.

        Args:
            planned: The ranges that it looked at.
            counts: How many of each it took.
            kinds: Their kinds by tenant; a tenant that is missing had async ones alone.
            rooms: The room that there was before the claim.
        """
        for (one, _), count in zip(planned, counts, strict=True):
            seen = kinds.get(one.tenant_id, _ASYNC if count else ())
            if seen:
                one.kinds = frozenset(seen) if one.kinds is _UNKNOWN else one.kinds.union(seen)
                if min(rooms.get(kind, 0) for kind in seen) > 0:
                    one.probe_at = self._probe_at = 0.0

    def found_nothing(self, planned: Iterable[tuple[Range, int]]) -> None:
        """Take note of a claim that found nothing at all."""
        for one, _ in planned:
            if one in self._hot:
                self._hot.remove(one)
                self._cold.append(one)

    def _fitted(
        self, planned: list[tuple[Range, int]], rooms: dict[Kind, int]
    ) -> Iterable[tuple[Range, int]]:
        """Cut each range's share to the room that is left for the kinds of its jobs."""
        now = time.monotonic()
        for one, share in planned:
            quantum = min([share, *(rooms[kind] for kind in one.kinds if kind in rooms)])
            if quantum <= 0 and one.kinds is _UNKNOWN:
                quantum = 1  # it is seen once what its jobs are
            elif quantum <= 0 and now >= max(one.probe_at, self._probe_at):
                one.probe_at = now + PROBE_SECONDS
                self._probe_at = now + 1 / PROBES_PER_SECOND
                quantum = 1
            if quantum > 0:
                for kind in one.kinds.intersection(rooms):
                    rooms[kind] -= quantum
                yield one, quantum


def _lane(planned: tuple[Range, int]) -> int:
    return planned[0].lane
