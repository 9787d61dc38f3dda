"""What can be found in the record of a run, and must not be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID


class Breach(StrEnum):
    """What can be found."""

    LOST = "lost"  # enqueued by a commit, and without an end
    DOUBLED = "doubled"  # more than one effect of a job, act of a key, or job of an intent
    STALE_FINISH = "stale_finishes"  # an end accepted for a run whose lease another took away
    OVERLAP = "overlaps"  # two leases that held one job at once
    TORN = "torn"  # half of what one transaction wrote
    GHOST = "ghosts"  # something of a transaction that was rolled back
    WRONG_END = "wrong_ends"  # another end than the job's own
    GAP = "gaps"  # runs that are not 1 to n, or not exactly one final outcome at n
    EARLY_RESCUE = "early_rescues"  # a lease that had not run out
    EVENTS_LOST = "events_lost"  # published by a commit, and not come to a subscriber
    EVENTS_DOUBLED = "events_doubled"  # two jobs of one subscription and event
    EVENTS_REORDERED = "events_reordered"  # of one aggregate, by the order of routing
    LEFT_OVER = "left_over"  # a row in ready, scheduled, waiting or lease after the drain


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that must not be, in words, and the job that it is about."""

    breach: Breach
    words: str
    job_id: UUID | None = None
