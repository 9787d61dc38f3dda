"""Dropping a day: the statements that cannot live in functions, in the order that loses nothing.

A day goes in five steps, each of which may be repeated after a crash: `upkeep.close_day` (from now
on what happens to its jobs is written beside it), wait until `is_settled` (nobody writes into it
any more), `upkeep.keep_survivors`, and per partition DETACH CONCURRENTLY, then DROP. PostgreSQL
runs the last two outside transactions only, so they are text here and no functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

from hudhud.store.call import Arg, Call, one
from hudhud.store.reads import Read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

State: TypeAlias = Literal["attached", "detaching", "detached"]


class Partition(NamedTuple):
    """A daily table and how far its drop has come."""

    parent: str
    name: str
    state: State


def is_settled(xid: int) -> Call[bool]:
    """Ask whether every transaction older than one that `close_day` named has ended.

    Source: sql/functions/upkeep/is_settled.sql
    """
    return Call("is_settled", (Arg("xid", "bigint", xid),), one)


def to_day(day: date) -> Read:
    """Read the partitions of a day and what was left standing of earlier ones; see `partitions`.

    Source: sql/reads/partitions_to_day.sql
    """
    return Read("partitions_to_day", {"day": day})


def events_to_day(day: date) -> Read:
    """Read the partitions of events of a day, and what was left standing of earlier ones.

    Source: sql/reads/event_partitions_to_day.sql
    """
    return Read("event_partitions_to_day", {"day": day})


def partitions(rows: Sequence[Mapping[str, object]]) -> list[Partition]:
    """Return what the rows of `to_day` say, oldest first."""
    return [
        Partition(str(row["parent"]), str(row["name"]), cast("State", row["state"])) for row in rows
    ]


def steps(partition: Partition) -> list[str]:
    """Return the statements that take a partition away, each to be run on its own.

    Detaching waits for the transactions that use the parent without stopping new ones; where that
    was interrupted, it is finalised instead.
    """
    parent, name, state = partition
    detach = f"alter table hudhud.{parent} detach partition hudhud.{name}"
    drop = f"drop table hudhud.{name}"
    match state:
        case "attached":
            return [f"{detach} concurrently", drop]
        case "detaching":
            return [f"{detach} finalize", drop]
        case "detached":
            return [drop]
