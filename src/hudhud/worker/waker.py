"""Hears the hints of enqueues and wakes the claimer of the queue they name.

A hint is a courtesy and polling is the truth: whatever happens here, no job waits for more than
one poll. What this module guards against is a listener that looks alive and hears nothing.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from hudhud.telemetry import emit
from hudhud.worker.connection import aconnect
from hudhud.worker.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from psycopg import AsyncConnection
    from psycopg.rows import TupleRow

_LISTEN: Final = "listen hudhud"
_UNLISTEN: Final = "unlisten hudhud"
_BEAT_MARK: Final = "!beat:"

POOLED_MESSAGE = (
    "LISTEN hears nothing on this connection, as behind a pooler in transaction mode: set"
    " HUDHUD_DIRECT_URL to the server's own address. Going on by polling alone."
)


class SilentError(Exception):
    """The listening connection did not carry its own heartbeat; it is opened anew."""


class Waker(Service):
    """Listens on one direct connection of its own and sets an event per queue.

    Attributes:
        reconnects: How often listening began again after it was lost (`listener_reconnects`).
        is_pooled: Whether the address turned out to be a pooler that cannot listen.
    """

    def __init__(
        self,
        direct_url: str,
        queues: Iterable[str],
        worker_id: UUID,
        *,
        beat_seconds: float = 10.0,
        answer_seconds: float = 5.0,
        rest_seconds: float = 60.0,
    ) -> None:
        """Make a waker; nothing is opened before `start`.

        Args:
            direct_url: Address of the server itself, not of a pooler in transaction mode.
            queues: Names of the queues this worker claims from.
            worker_id: Marks this process's heartbeats.
            beat_seconds: How long silence is believed before a heartbeat tests the connection.
            answer_seconds: How long a heartbeat may take to come back.
            rest_seconds: How long to leave it at polling where the address cannot listen.
        """
        super().__init__("waker")
        self.reconnects = 0
        self.is_pooled = False
        self._direct_url = direct_url
        self._events = {queue: asyncio.Event() for queue in queues}
        self._beat = f"notify hudhud, '{_BEAT_MARK}{worker_id}'"
        self._beat_seconds = beat_seconds
        self._answer_seconds = answer_seconds
        self._rest_seconds = rest_seconds
        self._has_listened = False

    def event(self, queue: str) -> asyncio.Event:
        """Return the event of a queue.

        Clear it, then claim, then wait for it no longer than a poll: a hint that comes during the
        claim is kept.

        Raises:
            KeyError: The worker does not claim from this queue.
        """
        return self._events[queue]

    def on_wake(self, hint: str) -> None:
        """Wake the claimer of the queue that a hint names; others' hints mean nothing here."""
        event = self._events.get(hint)
        if event is not None:
            event.set()

    def wake_all(self) -> None:
        """Wake every claimer once, as after a time in which hints were not heard."""
        for event in self._events.values():
            event.set()

    @override
    async def run(self) -> None:
        """Listen until a stop; a lost connection ends it with the error that says so."""
        async with self.until_stop():
            while not await self._listen_once():
                await self._rest()

    async def _listen_once(self) -> bool:
        """Listen for as long as the connection lives; false at once if it cannot be listened on."""
        connection = await aconnect(self._direct_url, "waker")
        try:
            await self._say(connection, _LISTEN)
            if not await self._hears(connection):
                await self._say(connection, _UNLISTEN)
                return False
            self._begin()
            await self._listen(connection)
            return True
        finally:
            await connection.close()

    async def _hears(self, connection: AsyncConnection[TupleRow]) -> bool:
        """Prove the connection by a beat from another one.

        A beat sent on this connection itself would come back even through a pooler, on the
        server connection that happens to be lent at that moment.
        """
        other = await aconnect(self._direct_url, "waker")
        try:
            await self._say(other, self._beat)
        finally:
            await other.close()
        return await self._hear(connection, self._answer_seconds)

    def _begin(self) -> None:
        if self._has_listened:
            self.reconnects += 1
            emit("listener.reconnected", reconnects=self.reconnects)
        self._has_listened = True
        self.is_pooled = False
        self.mark_ready()
        # Whatever was enqueued while nobody listened is found now, not at the next poll.
        self.wake_all()

    async def _listen(self, connection: AsyncConnection[TupleRow]) -> None:
        while True:
            # Any notification proves the connection, so in a fleet the first one to lose its
            # patience beats for all: about one beat per period, not one per worker.
            patience_seconds = self._beat_seconds * (0.8 + random.random() * 0.4)  # noqa: S311 - spreads load
            if await self._hear(connection, patience_seconds):
                continue
            await self._say(connection, self._beat)
            if not await self._hear(connection, self._answer_seconds):
                message = f"no heartbeat came back within {self._answer_seconds} s"
                raise SilentError(message)

    async def _say(self, connection: AsyncConnection[TupleRow], statement: str) -> None:
        """Execute a statement; a server process that stands still must not make this one wait."""
        try:
            async with asyncio.timeout(self._answer_seconds):
                await connection.execute(statement.encode())
        except TimeoutError as error:
            message = f"the server did not answer within {self._answer_seconds} s"
            raise SilentError(message) from error

    async def _hear(self, connection: AsyncConnection[TupleRow], seconds: float) -> bool:
        """Pass on what comes within so many seconds; return whether anything came."""
        has_heard = False
        async for notification in connection.notifies(timeout=seconds, stop_after=1):
            has_heard = True
            self.on_wake(notification.payload)
        return has_heard

    async def _rest(self) -> None:
        """Say once that only polling is left; look again after a while, should it have changed."""
        if not self.is_pooled:
            self.is_pooled = True
            emit("listener.pooled", error=POOLED_MESSAGE)
        self.mark_ready()
        await asyncio.sleep(self._rest_seconds)
