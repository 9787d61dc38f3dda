"""Failpoints of a living worker: armed from outside, on its board, one at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.chaos.board import Field
from bench.chaos.points import ACTIONS, POINTS, Action
from hudhud import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.chaos.board import Slot

# What stands still is longer than some leases, and shorter than others.
DELAY_SECONDS: Final = (0.05, 0.3, 1.5)


class PlannedError(Exception):
    """What a failpoint raises: nobody has a handler for it."""


def obey(slot: Slot, tell: Callable[[str, Action], None]) -> None:
    """Arm every point of this process, to do what its board says when it says it.

    Args:
        slot: Its board; the harness writes the order, see `order`.
        tell: Called with point and action before anything happens.
    """
    for number, point in enumerate(POINTS, 1):
        failpoint.arm(point, partial(_come_by, slot, number, tell))


def order(slot: Slot, point: str, action: Action) -> None:
    """Let something happen to the next that comes by a point of another process."""
    slot.order(POINTS.index(point) + 1, ACTIONS.index(action) + 1)


def _come_by(slot: Slot, number: int, tell: Callable[[str, Action], None]) -> None:
    if slot[Field.ARMED] != number:
        return
    action = ACTIONS[slot[Field.ACTION] - 1]
    task = _current_task()
    if action is Action.CANCEL and task is None:
        return  # a thread has no task; the next one that comes by may have
    if not slot.take_order(number):
        return
    tell(POINTS[number - 1], action)
    slot.add(Field.FIRED, 1)
    match action:
        case Action.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case Action.RAISE:
            message = f"planned at {POINTS[number - 1]}"
            raise PlannedError(message)
        case Action.CANCEL:
            assert task is not None
            task.cancel()
        case Action.DELAY:
            time.sleep(DELAY_SECONDS[slot[Field.FIRED] % len(DELAY_SECONDS)])


def _current_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
