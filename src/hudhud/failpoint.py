"""Named points between durable steps, at which a test lets this process fail.

What a crash can tear apart lies between two commits. Each such place has a name here; a test arms
it with what is to happen when a run comes by (end the process, raise, cancel the task, wait), and a
registry test holds that every point is really passed. In production nothing is armed, and a point
costs one look at an empty mapping. Steps inside one SQL function have points of their own: see
sql/functions/base/reach.sql.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

POINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "claim.asked": "before jobs are claimed",
        "claim.taken": "jobs are claimed, none has started",
        "effect.entered": "before the intention of an effect is committed",
        "effect.intended": "the intention is committed, the provider was not called",
        "effect.called": "the provider was called, what came of it is not recorded",
        "effect.recorded": "what came of it is committed",
        "transaction.settled": "ctx.transaction() has the run's end, not the handler's rows",
        "transaction.written": "the handler's rows are written, nothing is committed",
        "transaction.committed": "all of it is committed, the worker does not know yet",
        "finish.asked": "runs have ended, their ends are not written",
        "finish.recorded": "the ends are committed, the worker does not know yet",
        "relay.routed": "jobs and cursor are committed, the relay does not know yet",
    }
)
SQL_POINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "publish.written": "an event is written, its transaction is open",
        "relay.inserted": "jobs are inserted, the cursor has not moved",
        "relay.moved": "the cursor has moved, nothing is committed",
    }
)

_armed: dict[str, Callable[[], None]] = {}


def reach(name: str) -> None:
    """Come by a point: do what it is armed with, if it is armed."""
    if _armed and (action := _armed.get(name)) is not None:
        action()


def arm(name: str, action: Callable[[], None]) -> None:
    """Let something happen at a point, on the thread that comes by, each time, until `disarm`.

    Raises:
        KeyError: There is no such point.
    """
    POINTS[name]
    _armed[name] = action


def disarm() -> None:
    """Let nothing happen at any point."""
    _armed.clear()
