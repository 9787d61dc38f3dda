"""Callers who wait for jobs to end: all of them together cost one statement at a time.

A waiting request holds no connection. One task asks, for everybody, which of the awaited jobs have
ended, and wakes those who waited for them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

import psycopg

from hudhud.store.reads import Read

if TYPE_CHECKING:
    from uuid import UUID

    from hudhud.web.database import Database

SECONDS_MAX = 30
"""The longest wait that is granted; proxies in between cut a silent request soon after."""
WAITERS_MAX = 500
"""Callers that may wait at once; the next one is answered at once, with the status as it is."""
POLL_SECONDS = 0.05
AWAY_SECONDS = 1.0  # between two tries while the database does not answer

_logger = logging.getLogger(__name__)


class Waits:
    """Wakes callers when their jobs have ended.

    Attributes:
        count: Callers that wait now.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ends: dict[UUID, set[asyncio.Event]] = {}
        self.count = 0
        self._polling: asyncio.Task[None] | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more caller may wait."""
        return self.count < WAITERS_MAX

    async def until_ended(self, job_id: UUID, seconds: float) -> None:
        """Return when the job has ended, or after `seconds`; the caller looks at it again then."""
        end = asyncio.Event()
        self._ends.setdefault(job_id, set()).add(end)
        self.count += 1
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll(), name="hudhud-waits")
        try:
            await asyncio.wait_for(end.wait(), seconds)
        except TimeoutError:
            return
        finally:
            self.count -= 1
            self._ends[job_id].discard(end)
            if not self._ends[job_id]:
                del self._ends[job_id]

    async def close(self) -> None:
        """Wake everybody; the server stops."""
        for ends in self._ends.values():
            for end in ends:
                end.set()
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)

    async def _poll(self) -> None:
        while self._ends:  # noqa: ASYNC110 - what ends a job is in the database, not in here
            await asyncio.sleep(await self._wake())

    async def _wake(self) -> float:
        """Wake those whose jobs have ended; return the seconds until the next look."""
        try:
            rows = await self._database.read(Read("finals", {"ids": list(self._ends)}))
        except psycopg.OperationalError as error:
            _logger.warning("Nobody can be told that a job has ended: %s", error)
            return AWAY_SECONDS
        for row in rows:
            for end in self._ends.get(cast("UUID", row["id"]), ()):
                end.set()
        return POLL_SECONDS
