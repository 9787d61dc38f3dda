"""Keeps the house: the next days' partitions, old history, days whose time is over.

Nothing here is urgent, and nothing of it may hold up what is: every statement is bounded, and what
cannot be done now is reported and tried again in the next round.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from hudhud.drivers.psycopg import arun
from hudhud.store import partitions, upkeep
from hudhud.telemetry import emit
from hudhud.worker.connection import aconnect

if TYPE_CHECKING:
    from datetime import date

    from psycopg import AsyncConnection
    from psycopg.rows import TupleRow

DAYS_AHEAD: Final = 14
ROWS_MAX: Final = 1_000
SETTLE_POLL_SECONDS: Final = 1.0


class Housekeeping:
    """The rounds of one maintainer. Any number may run at once; what one has done, others find.

    Attributes:
        closing: The day that was closed last, and the transaction that it waits for.
    """

    def __init__(
        self, url: str, *, settle_seconds: float = 60.0, statement_seconds: float = 30.0
    ) -> None:
        """Make the rounds; nothing is opened before the first.

        Args:
            url: Address of the database.
            settle_seconds: How long a round waits for those who still write into a closed day.
            statement_seconds: How long a DETACH or DROP may wait for its locks. Bounded here and
                not by `lock_timeout`, which would need a session of our own behind a pooler.
        """
        self.closing: tuple[date, int] | None = None
        self._url = url
        self._settle_seconds = settle_seconds
        self._statement_seconds = statement_seconds

    async def go_round(self) -> None:
        """Do what there is to do now, on a connection that is closed again.

        Raises:
            psycopg.Error: The database is away, or refuses; the next round goes on from there.
            TimeoutError: A partition could not be had in time; likewise.
        """
        connection = await aconnect(self._url, "housekeeping")
        try:
            await arun(connection, upkeep.make_partitions(DAYS_AHEAD))
            while await arun(connection, upkeep.prune(ROWS_MAX)) >= ROWS_MAX:
                continue
            while (day := await arun(connection, upkeep.day_to_drop())) is not None:
                if not await self._drop_day(connection, day):
                    return
        finally:
            await connection.close()

    async def _drop_day(self, connection: AsyncConnection[TupleRow], day: date) -> bool:
        """Take a day away; false if somebody still writes into it."""
        if self.closing is None or self.closing[0] != day:
            self.closing = day, await arun(connection, upkeep.close_day(day))
        if not await self._settles(connection, self.closing[1]):
            emit("partition.drop_delayed", day=day, waits_for_xid=self.closing[1])
            return False
        kept = await arun(connection, upkeep.keep_survivors(day))
        for partition in partitions.partitions(await arun(connection, partitions.to_day(day))):
            for statement in partitions.steps(partition):
                async with asyncio.timeout(self._statement_seconds):
                    await connection.execute(statement.encode())
        emit("partition.dropped", day=day, kept_jobs=kept)
        return True

    async def _settles(self, connection: AsyncConnection[TupleRow], xid: int) -> bool:
        until = time.monotonic() + self._settle_seconds
        while not (is_settled := await arun(connection, partitions.is_settled(xid))):
            if time.monotonic() >= until:
                break
            await asyncio.sleep(SETTLE_POLL_SECONDS)
        return is_settled
