"""Notices, from another thread, that the event loop stands still."""

from __future__ import annotations

import time
from typing import Final

from hudhud.telemetry import emit

STALL_SECONDS: Final = 1.0


class LoopWatch:
    """The loop stamps it every `tick_seconds`; a thread looks at the stamp's age.

    A handler that computes or blocks inside the loop stops every other handler with it. That is
    told once when it is noticed and once, with the whole length, when it is over.
    """

    def __init__(self, tick_seconds: float) -> None:
        self._tick_seconds = tick_seconds
        self._stamped_at = time.monotonic()
        self._stalled_since: float | None = None

    def stamp(self) -> None:
        """Say, on the loop, that it turns."""
        self._stamped_at = time.monotonic()

    def look(self) -> float:
        """Compare the stamp's age with the tick, on the watching thread.

        Returns:
            By how many seconds the loop is late, 0 if it is not.
        """
        stamped_at = self._stamped_at
        lag_seconds = max(0.0, time.monotonic() - stamped_at - self._tick_seconds)
        since = self._stalled_since
        if since is not None and stamped_at > since:
            self._stalled_since = None
            emit("loop.recovered", lag_seconds=stamped_at - since - self._tick_seconds)
        if lag_seconds > STALL_SECONDS and self._stalled_since is None:
            self._stalled_since = stamped_at
            emit("loop.stalled", lag_seconds=lag_seconds)
        return lag_seconds
