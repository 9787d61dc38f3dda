"""The failpoints of the engine, and the ways to fail at each, as the registry has them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from hudhud import failpoint

POINTS: Final = tuple(failpoint.POINTS)
SQL_POINTS: Final = tuple(failpoint.SQL_POINTS)


class Action(StrEnum):
    """What happens to whoever comes by."""

    KILL = "kill"
    RAISE = "raise"
    CANCEL = "cancel"  # of the task that comes by; in SQL, of the statement
    DELAY = "delay"


ACTIONS: Final = tuple(Action)
COMBINATIONS: Final = tuple(
    (point, action) for point in (*POINTS, *SQL_POINTS) for action in ACTIONS
)
