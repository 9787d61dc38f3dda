"""Routes events to their subscriptions; any number of relays may run at once.

Each round asks which subscriptions have something to be routed, one call for all, and then routes
those, a bounded step at a time. A publish wakes it; polling is the truth. A subscription whose step
fails rests for a while, and costs no other one its turn.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import psycopg
from typing_extensions import override

from hudhud.errors import HudhudError, RestoredCopyError
from hudhud.failpoint import reach
from hudhud.store import events
from hudhud.telemetry import emit
from hudhud.worker.backoff import Backoff
from hudhud.worker.link import Link
from hudhud.worker.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable

    from hudhud.worker.relay_watch import RelayWatch

HINT: Final = "!events"  # no queue's name begins so
EVENTS_MAX: Final = 1_000  # of one step: some 10 to 50 ms
POLL_SECONDS_MIN: Final = 0.05  # after something was routed
POLL_SECONDS_MAX: Final = 1.0
POLL_SECONDS_DEAF: Final = 0.1  # where no hint can be heard, as behind a pooler
BUSY_SECONDS: Final = 0.5
BUSY_EVENTS_PER_SECOND: Final = 200
BUSY_POLL_SECONDS: Final = 0.01
REFUSED_SECONDS: Final = 30.0
REST_SECONDS_MAX: Final = 30.0
# How SQLSTATEs begin that speak of the connection or the server, not of a step.
_LOST: Final = ("08", "53300", "57P")


@dataclass(slots=True)
class _Rest:
    """What a subscription takes after steps that failed.

    Attributes:
        until: On the monotonic clock.
    """

    until: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(max_seconds=REST_SECONDS_MAX))

    def begin(self) -> float:
        """Count one more failure; return for how many seconds to rest."""
        seconds = self.backoff.next_delay_seconds()
        self.until = time.monotonic() + seconds
        return seconds


class Relay(Service):
    """The loop that makes jobs of events.

    Attributes:
        routed: Jobs made so far.
    """

    def __init__(
        self,
        url: str,
        hint: asyncio.Event,
        *,
        watch: RelayWatch,
        is_heard: Callable[[], bool] = lambda: True,
        events_max: int = EVENTS_MAX,
        poll_seconds_max: float = POLL_SECONDS_MAX,
    ) -> None:
        """Make a relay; nothing is opened before `start`.

        Args:
            url: Address of the database.
            hint: Set when something was published.
            watch: Looks now and then for what holds events up.
            is_heard: Whether hints come at all; while they do not, it polls harder.
            events_max: Of one step, each its own transaction.
            poll_seconds_max: Between two looks when nothing is published.
        """
        super().__init__("relay")
        self.routed = 0
        self._url = url
        self._hint = hint
        self._watch = watch
        self._is_heard = is_heard
        self._events_max = events_max
        self._poll_seconds_max = poll_seconds_max
        self._refused_at = float("-inf")
        self._rests: dict[str, _Rest] = {}
        self._busy_until = 0.0
        self._busy_since = time.monotonic()
        self._busy_events = 0

    @override
    async def run(self) -> None:
        """Route until a stop."""
        link = Link(self._url, "relay")
        seconds = POLL_SECONDS_MIN
        try:
            while not self.is_stopping:
                self._hint.clear()
                routed = await self._go_round(link)
                self.mark_ready()
                await self._say_busy(link, routed)
                await self._watch.look(link)
                seconds = POLL_SECONDS_MIN if routed else min(seconds * 2, self._poll_max())
                await self._wait(seconds)
        finally:
            await link.close()

    async def _go_round(self, link: Link) -> int:
        """Route what is due; return how many jobs that made."""
        try:
            names = await link.run(events.due_subscriptions())
            return sum([await self._give_turn(link, name) for name in names])
        except RestoredCopyError as error:
            self._tell_refused(error)
            return 0

    async def _give_turn(self, link: Link, name: str) -> int:
        """Route a step of a subscription, unless it rests; return how many jobs that made."""
        rest = self._rests.setdefault(name, _Rest())
        if time.monotonic() < rest.until:
            return 0
        try:
            routed = await self._route(link, name)
        except RestoredCopyError:
            raise
        except (psycopg.Error, HudhudError) as error:
            if _is_lost(error):
                raise
            emit("relay.failed", subscription=name, error=error, retry_seconds=rest.begin())
            return 0
        rest.backoff.reset()
        return routed

    async def _route(self, link: Link, name: str) -> int:
        """Take one step of a subscription: the others are waiting for theirs."""
        step = await link.run(events.relay(name, self._events_max))
        if step.is_open:
            self._hint.set()  # there is more: the next round is at once
        if step.routed:
            reach("relay.routed")
            self.routed += step.routed
            emit("relay.routed", subscription=name, events=step.routed)
        return step.routed

    async def _say_busy(self, link: Link, routed: int) -> None:
        """Spare publishes their hints while this relay polls hard anyway."""
        self._busy_events += routed
        now = time.monotonic()
        passed = now - self._busy_since
        if passed < BUSY_SECONDS:
            return
        if self._busy_events > BUSY_EVENTS_PER_SECOND * passed:
            await link.run(events.mark_relay(2 * BUSY_SECONDS))
            self._busy_until = now + 2 * BUSY_SECONDS
        self._busy_events = 0
        self._busy_since = now

    async def _wait(self, seconds: float) -> None:
        """Wait for a hint, but no longer than a poll."""
        if time.monotonic() < self._busy_until:
            seconds = BUSY_POLL_SECONDS
        async with self.until_stop():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._hint.wait()

    def _poll_max(self) -> float:
        seconds = self._poll_seconds_max
        return seconds if self._is_heard() else min(seconds, POLL_SECONDS_DEAF)

    def _tell_refused(self, error: RestoredCopyError) -> None:
        now = time.monotonic()
        if now - self._refused_at >= REFUSED_SECONDS:
            self._refused_at = now
            emit("relay.refused", error=error)


def _is_lost(error: BaseException) -> bool:
    """Whether the connection is what failed, so that no other step would fare better."""
    if isinstance(error, psycopg.OperationalError):
        return error.sqlstate is None or error.sqlstate.startswith(_LOST)
    return isinstance(error, psycopg.InterfaceError)
