"""Waiting in tests: for a condition, with a deadline that only a hang can reach."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PAUSE_SECONDS = 0.01


def until(predicate: Callable[[], T], seconds: float = 30) -> T:
    """Return what predicate returns as soon as that is true; AssertionError after seconds.

    The deadline is liveness, never a measurement: make it generous.
    """
    deadline = time.monotonic() + seconds
    while True:
        if result := predicate():
            return result
        assert time.monotonic() < deadline, f"still not true after {seconds} s: {predicate}"
        time.sleep(PAUSE_SECONDS)


async def auntil(predicate: Callable[[], T], seconds: float = 30) -> T:
    """Do as `until` does, and leave the event loop free meanwhile."""
    deadline = time.monotonic() + seconds
    while True:
        if result := predicate():
            return result
        assert time.monotonic() < deadline, f"still not true after {seconds} s: {predicate}"
        await asyncio.sleep(PAUSE_SECONDS)
