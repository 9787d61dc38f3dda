"""Moves what is due, takes back what was lost, and keeps the house; any number may run at once."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final

import psycopg
from typing_extensions import override

from hudhud.drivers.psycopg import arun
from hudhud.store import effects, events, partitions, upkeep
from hudhud.telemetry import emit
from hudhud.worker.connection import aconnect
from hudhud.worker.link import Link
from hudhud.worker.service import Service

if TYPE_CHECKING:
    from datetime import date

    from hudhud.store.reads import Read
    from hudhud.store.upkeep import Rescued

JOBS_MAX: Final = 1_000
LEASES_MAX: Final = 20
STAGE_SECONDS_MIN: Final = 0.05  # while something is due
STAGE_SECONDS_MAX: Final = 0.25
RESCUE_SECONDS: Final = 1.0
HOUSE_SECONDS: Final = 60.0
DAYS_AHEAD: Final = 14
ROWS_MAX: Final = 1_000
SETTLE_POLL_SECONDS: Final = 1.0


class Maintainer(Service):
    """Stages and rescues on one connection; the house is kept beside it, on another.

    Attributes:
        housekeeping: The slow rounds; a failure there is reported and stops nothing here.
    """

    def __init__(
        self, url: str, direct_url: str | None = None, *, house_seconds: float = HOUSE_SECONDS
    ) -> None:
        """Make a maintainer; nothing is opened before `start`.

        Args:
            url: Address of the database.
            direct_url: Address past a pooler, for what may have to be cancelled; None: the same.
            house_seconds: Between two rounds of housekeeping, give or take a fifth.
        """
        super().__init__("maintainer")
        self.housekeeping = Housekeeping(url, direct_url)
        self._url = url
        self._house_seconds = house_seconds

    @override
    async def run(self) -> None:
        """Work until a stop."""
        link = Link(self._url, "maintainer")
        house = asyncio.ensure_future(self._keep_house())
        try:
            await self._maintain(link)
        finally:
            house.cancel()
            await asyncio.wait({house})
            await link.close()

    async def _maintain(self, link: Link) -> None:
        seconds = STAGE_SECONDS_MIN
        rescue_at = time.monotonic()
        while True:
            moved = await self._stage(link)
            if time.monotonic() >= rescue_at:
                await self._rescue(link)
                rescue_at = time.monotonic() + _spread(RESCUE_SECONDS)
            self.mark_ready()
            seconds = STAGE_SECONDS_MIN if moved else min(seconds * 2, STAGE_SECONDS_MAX)
            if not await self.pause(_spread(seconds)):
                return

    async def _stage(self, link: Link) -> int:
        """Move what is due, in bounded steps; return how many jobs that were."""
        moved = step = await link.run(upkeep.stage(JOBS_MAX))
        while step >= JOBS_MAX and not self.is_stopping:
            step = await link.run(upkeep.stage(JOBS_MAX))
            moved += step
        return moved

    async def _rescue(self, link: Link) -> None:
        while any(found := await link.run(upkeep.rescue(LEASES_MAX))):
            _tell_rescued(found)
            if self.is_stopping:
                return

    async def _keep_house(self) -> None:
        async with self.until_stop():
            while True:
                try:
                    await self.housekeeping.go_round()
                except Exception as error:  # noqa: BLE001 - whatever it is, the next round tries again
                    emit("maintainer.housekeeping_failed", error=error)
                await asyncio.sleep(_spread(self._house_seconds))


class Housekeeping:
    """Keeps the house: the next days' partitions, old history, days whose time is over.

    Nothing here is urgent, and nothing of it may hold up what is: every statement is bounded, and
    what cannot be done now is reported and tried again in the next round. Any number may run at
    once; what one has done, the others find.

    Attributes:
        closing: The day that was closed last, and the transaction that it waits for.
        held: The day of events that could go but for some subscriptions, and those.
    """

    def __init__(
        self,
        url: str,
        direct_url: str | None = None,
        *,
        settle_seconds: float = 60.0,
        statement_seconds: float = 30.0,
    ) -> None:
        """Make the rounds; nothing is opened before the first.

        Args:
            url: Address of the database.
            direct_url: Address past a pooler, for DETACH and DROP; None: the same. They are
                cancelled when they wait too long, and some poolers crash over a cancellation.
            settle_seconds: How long a round waits for those who still write into a closed day.
            statement_seconds: How long a DETACH or DROP may wait for its locks. Bounded here and
                not by `lock_timeout`, which would need a session of our own behind a pooler.
        """
        self.closing: tuple[date, int] | None = None
        self.held: tuple[date, list[str]] | None = None
        self._link = Link(url, "housekeeping")
        self._direct_url = direct_url or url
        self._settle_seconds = settle_seconds
        self._statement_seconds = statement_seconds

    async def go_round(self) -> None:
        """Do what there is to do now, on connections that are closed again.

        Raises:
            psycopg.Error: The database is away, or refuses; the next round goes on from there.
            TimeoutError: A partition could not be had in time; likewise.
        """
        try:
            await self._link.run(upkeep.make_partitions(DAYS_AHEAD))
            while await self._link.run(upkeep.prune(ROWS_MAX)) >= ROWS_MAX:
                continue
            while await self._link.run(effects.prune_effects(ROWS_MAX)) >= ROWS_MAX:
                continue
            while (day := await self._link.run(upkeep.day_to_drop())) is not None:
                if not await self._drop_day(day):
                    break
            while (day := await self._link.run(events.event_day_to_drop())) is not None:
                if not await self._drop_event_day(day):
                    break
        finally:
            await self._link.close()

    async def _drop_day(self, day: date) -> bool:
        """Take a day away; false if somebody still writes into it."""
        if self.closing is None or self.closing[0] != day:
            self.closing = day, await self._link.run(upkeep.close_day(day))
        if not await self._settles(self.closing[1]):
            emit("partition.drop_delayed", day=day, waits_for_xid=self.closing[1])
            return False
        kept = await self._link.run(upkeep.keep_survivors(day))
        await self._take_away(partitions.to_day(day))
        emit("partition.dropped", day=day, kept_jobs=kept)
        return True

    async def _drop_event_day(self, day: date) -> bool:
        """Take a day of events away; false if somebody still needs it or writes into it."""
        try:
            released = await self._link.run(events.release_event_day(day))
        except psycopg.errors.LockNotAvailable:
            emit("partition.drop_delayed", day=day, waits_for_xid=None)
            return False
        if released.holders:
            if self.held != (day, released.holders):
                emit("partition.held", day=day, subscriptions=released.holders)
            self.held = day, released.holders
            return False
        await self._take_away(partitions.events_to_day(day))
        emit("partition.dropped", day=day, kept_jobs=0)
        if released.losers:
            emit("subscription.skipped", day=day, subscriptions=released.losers)
        return True

    async def _take_away(self, listed: Read) -> None:
        """Detach and drop partitions, each statement by itself and in bounded time."""
        connection = await aconnect(self._direct_url, "housekeeping")
        try:
            for partition in partitions.partitions(await arun(connection, listed)):
                for statement in partitions.steps(partition):
                    async with asyncio.timeout(self._statement_seconds):
                        await connection.execute(statement.encode())
        finally:
            await connection.close()

    async def _settles(self, xid: int) -> bool:
        until = time.monotonic() + self._settle_seconds
        while not (is_settled := await self._link.run(partitions.is_settled(xid))):
            if time.monotonic() >= until:
                break
            await asyncio.sleep(SETTLE_POLL_SECONDS)
        return is_settled


def _tell_rescued(found: Rescued) -> None:
    emit("lease.rescued", jobs_ready=found.rescued, jobs_ended=found.dead)


def _spread(seconds: float) -> float:
    """Give or take a fifth, so that the maintainers of a fleet do not meet."""
    return seconds * (0.8 + random.random() * 0.4)  # noqa: S311 - spreads load
