"""Watches over what the relay cannot do by itself: who holds events up, and who has gone silent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from hudhud.store import events
from hudhud.telemetry import emit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hudhud.worker.link import Link

LOOK_SECONDS: Final = 10.0
SEEN_SECONDS: Final = 300.0
STALL_SECONDS: Final = 60.0
TOLD_MAX: Final = 10_000
SILENT: Final = (
    "No worker has announced it for days: nothing is routed or kept for it. Start one that has its"
    " handler, or run `hudhud events stop`."
)


class RelayWatch:
    """Looks now and then, on the relay's connection, and tells what it finds once."""

    def __init__(
        self,
        subscriptions: Sequence[str],
        *,
        stall_seconds: float = STALL_SECONDS,
        look_seconds: float = LOOK_SECONDS,
        seen_seconds: float = SEEN_SECONDS,
    ) -> None:
        """Make a watch.

        Args:
            subscriptions: Those whose handlers this worker has; they are not silent.
            stall_seconds: How long a transaction may hold events up before its session is named.
            look_seconds: Between two looks.
            seen_seconds: Between two times that the subscriptions are said to be there.
        """
        self._subscriptions = list(subscriptions)
        self._stall_seconds = stall_seconds
        self._look_seconds = look_seconds
        self._seen_seconds = seen_seconds
        self._look_at = 0.0
        self._seen_at = time.monotonic()
        self._told: set[tuple[str, str | int | None, datetime | None]] = set()

    async def look(self, link: Link) -> None:
        """Look, if it is time to."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + self._look_seconds
        if self._subscriptions and now >= self._seen_at + self._seen_seconds:
            self._seen_at = now
            await link.run(events.see_subscriptions(self._subscriptions))
        for stall in await link.run(events.relay_stalls(self._stall_seconds)):
            if self._is_news("stall", stall.pid or stall.application, stall.since):
                emit(
                    "relay.stalled", **stall._asdict(), error=f"{stall}; see `hudhud events stalls`"
                )
        for name in await link.run(events.silent_subscriptions()):
            if self._is_news("silent", name, None):
                emit("subscription.silent", subscription=name, error=SILENT)

    def _is_news(self, kind: str, of: str | int | None, since: datetime | None) -> bool:
        """Whether it has not been told yet; what was told is forgotten when it is very much."""
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        is_news = (kind, of, since) not in self._told
        self._told.add((kind, of, since))
        return is_news
