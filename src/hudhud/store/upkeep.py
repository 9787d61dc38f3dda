"""The verbs of the maintainer: due jobs, lost leases, old history, the next days' partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hudhud.store.call import Arg, Call, one

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from hudhud.store.call import Row


class Rescued(NamedTuple):
    """What a rescue did: jobs made ready again, jobs that ended (dead, or cancelled on request)."""

    rescued: int
    dead: int


def stage(max_jobs: int = 1_000) -> Call[int]:
    """Make due jobs claimable.

    Returns:
        Jobs moved; call again while it equals max_jobs.

    Source: sql/functions/upkeep/stage.sql
    """
    return Call("stage", (Arg("max_jobs", "integer", max_jobs),), one)


def rescue(max_leases: int = 20) -> Call[Rescued]:
    """Take back what was claimed under leases that ran out.

    Source: sql/functions/upkeep/rescue.sql
    """
    return Call("rescue", (Arg("max_leases", "integer", max_leases),), _rescued)


def prune(max_rows: int = 1_000) -> Call[int]:
    """Delete what is past its retention and goes with no partition.

    Returns:
        Rows deleted; call again while it is at least max_rows.

    Source: sql/functions/upkeep/prune.sql
    """
    return Call("prune", (Arg("max_rows", "integer", max_rows),), one)


def make_partitions(days: int = 14) -> Call[int]:
    """Make the daily partitions up to some days ahead, 1 to 60.

    Returns:
        Tables made.

    Source: sql/functions/upkeep/make_partitions.sql
    """
    return Call("make_partitions", (Arg("days", "integer", days),), one)


def days_ahead() -> Call[int]:
    """Ask for how many more days jobs can be enqueued with the partitions that exist.

    Source: sql/functions/upkeep/days_ahead.sql
    """
    return Call("days_ahead", (), one)


def day_to_drop() -> Call[date | None]:
    """Ask for the oldest day whose partitions can go, None when there is none.

    Source: sql/functions/upkeep/day_to_drop.sql
    """
    return Call("day_to_drop", (), one)


def close_day(day: date) -> Call[int]:
    """Write what happens to a day's jobs beside its partitions from now on.

    Returns:
        The transaction id that everything is older than which may still write into them.

    Source: sql/functions/upkeep/close_day.sql
    """
    return Call("close_day", (Arg("day", "date", day),), one)


def keep_survivors(day: date) -> Call[int]:
    """Copy what is still needed of a closed day; can be repeated.

    Returns:
        Jobs copied.

    Source: sql/functions/upkeep/keep_survivors.sql
    """
    return Call("keep_survivors", (Arg("day", "date", day),), one)


def _rescued(rows: Sequence[Row]) -> Rescued:
    return Rescued(*rows[0])
