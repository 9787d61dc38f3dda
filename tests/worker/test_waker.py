"""Laws of the listener: a hint wakes its queue, and a deaf listener never looks alive."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from hudhud.worker.waker import Waker
from tests.support.pooler import pooler
from tests.support.server import database_of
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.support.server import Server
    from tests.support.told import Told

QUEUES = ("bank", "mail")


@dataclass(frozen=True, slots=True)
class Place:
    """A database of the test's own, and what an administrator does to it."""

    server: Server
    database: str

    @property
    def direct(self) -> str:
        """Where to LISTEN, also in a run through PgBouncer."""
        return self.server.direct(self.database)

    @property
    def socket(self) -> Path:
        return Path(self.server.host) / f".s.PGSQL.{self.server.port}"

    def enqueue(self, queue: str) -> None:
        with psycopg.connect(self.database, prepare_threshold=None) as connection:
            connection.execute("select hudhud.enqueue('t', '{}', queue => %s)", [queue])

    def allow_connections(self, *, allow: bool) -> None:
        statement = sql.SQL("alter database {} allow_connections {}")
        name = sql.Identifier(database_of(self.database))
        with psycopg.connect(self.server.admin(), autocommit=True) as connection:
            connection.execute(statement.format(name, sql.Literal(allow)))

    def listeners(self) -> list[int]:
        """Return the server processes of wakers."""
        with psycopg.connect(self.server.admin(), autocommit=True) as connection:
            rows = connection.execute(
                "select pid from pg_stat_activity"
                " where datname = %s and application_name = 'hudhud waker'",
                [database_of(self.database)],
            )
            return [pid for (pid,) in rows]

    def end_listeners(self) -> None:
        with psycopg.connect(self.server.admin(), autocommit=True) as connection:
            for pid in self.listeners():
                connection.execute("select pg_terminate_backend(%s)", [pid])

    def beats(self, amount: int) -> list[str]:
        """Wait for notifications that are no hints."""
        with psycopg.connect(self.direct, autocommit=True) as connection:
            connection.execute("listen hudhud")
            return [one.payload for one in connection.notifies(timeout=30, stop_after=amount)]


@pytest.fixture
def place(server: Server, database: str) -> Place:
    return Place(server, database)


@asynccontextmanager
async def waking(
    direct: str, *, beat_seconds: float = 10.0, answer_seconds: float = 5.0
) -> AsyncGenerator[Waker]:
    waker = Waker(direct, QUEUES, uuid4(), beat_seconds=beat_seconds, answer_seconds=answer_seconds)
    waker.start()
    try:
        async with asyncio.timeout(60):
            assert await waker.ready()
        yield waker
    finally:
        await waker.stop(within_seconds=30)


@asynccontextmanager
async def pooled(place: Place) -> AsyncGenerator[str]:
    """Give an address behind a pooler in transaction mode: the run's PgBouncer, or our own."""
    if place.database != place.direct:
        yield place.database
        return
    async with pooler(place.socket, database=database_of(place.database), user="hudhud") as url:
        yield url


def clear(waker: Waker) -> None:
    for queue in QUEUES:
        waker.event(queue).clear()


async def heard(waker: Waker, queue: str) -> None:
    async with asyncio.timeout(30):
        await waker.event(queue).wait()


async def test_an_enqueue_wakes_its_queue_and_no_other(place: Place) -> None:
    async with waking(place.direct) as waker:
        clear(waker)
        place.enqueue("elsewhere")
        place.enqueue("bank")
        await heard(waker, "bank")
        assert not waker.event("mail").is_set()


async def test_every_queue_is_awake_when_listening_begins(place: Place) -> None:
    async with waking(place.direct) as waker:
        assert all(waker.event(queue).is_set() for queue in QUEUES)
        assert waker.reconnects == 0


async def test_a_listener_that_is_ended_comes_back_and_wakes_every_queue_once(
    place: Place, told: Told
) -> None:
    """FAILURES A34: jobs of the gap start at the reconnect, later ones at their hint."""
    async with waking(place.direct) as waker:
        clear(waker)
        place.end_listeners()
        await auntil(lambda: waker.reconnects)
        for queue in QUEUES:
            await heard(waker, queue)
        clear(waker)
        place.enqueue("mail")
        await heard(waker, "mail")
        assert not waker.event("bank").is_set()
        assert waker.reconnects == 1
        assert told.of("listener.reconnected") == [{"reconnects": 1}]


async def test_a_database_that_is_away_costs_few_tries_and_hardly_any_time(
    place: Place, told: Told
) -> None:
    """FAILURES A35: a dead listener must not become a busy loop."""
    async with waking(place.direct) as waker:
        place.allow_connections(allow=False)
        began, used = time.monotonic(), time.process_time()
        place.end_listeners()
        await auntil(lambda: waker.crashes >= 6)
        passed, used = time.monotonic() - began, time.process_time() - used
        place.allow_connections(allow=True)
        await auntil(lambda: waker.reconnects)
    waits = [float(str(fields["restart_seconds"])) for fields in told.of("service.crashed")]
    assert passed >= sum(waits[:5])
    assert used < 1
    # Each further wait is at least half the cap of 5 s.
    assert len(waits) + (30 - sum(waits)) / 2.5 < 20


async def test_a_server_process_that_stands_still_is_noticed_and_replaced(
    place: Place, told: Told
) -> None:
    async with waking(place.direct, beat_seconds=0.1, answer_seconds=0.2) as waker:
        (pid,) = place.listeners()
        os.kill(pid, signal.SIGSTOP)
        try:
            await auntil(lambda: waker.reconnects)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert told.of("service.crashed")
        clear(waker)
        place.enqueue("bank")
        await heard(waker, "bank")


async def test_a_quiet_connection_is_kept_as_long_as_its_heartbeats_come_back(place: Place) -> None:
    async with waking(place.direct, beat_seconds=0.01) as waker:
        (pid,) = place.listeners()
        beats = await asyncio.to_thread(place.beats, 5)
        assert len(beats) >= 5
        assert all(beat.startswith("!beat:") for beat in beats)
        assert place.listeners() == [pid]
        assert waker.crashes == 0


async def test_behind_a_pooler_in_transaction_mode_one_line_names_the_missing_setting(
    place: Place, told: Told
) -> None:
    """FAILURES A36: a LISTEN that hears nothing must not pass for one that works."""
    async with pooled(place) as url:
        async with waking(url, answer_seconds=0.5) as waker:
            assert waker.is_pooled
            assert waker.is_ready
            assert waker.crashes == 0
        (line,) = told.of("listener.pooled")
        assert "HUDHUD_DIRECT_URL" in str(line["error"])
        assert "\n" not in str(line["error"])


async def test_a_pooler_that_learns_to_listen_is_found_out(place: Place) -> None:
    """The address is asked again after a while: a fault of a moment is not for ever."""
    async with pooled(place) as url:
        waker = Waker(url, QUEUES, uuid4(), answer_seconds=0.3, rest_seconds=0.05)
        waker.start()
        await auntil(lambda: waker.is_pooled)
        waker._direct_url = place.direct  # noqa: SLF001 - as if the pooler's mode had been changed
        await auntil(lambda: not waker.is_pooled)
        clear(waker)
        place.enqueue("bank")
        await heard(waker, "bank")
        await waker.stop(within_seconds=30)


async def test_a_stop_does_not_wait_for_a_notification(place: Place) -> None:
    async with waking(place.direct) as waker:
        async with asyncio.timeout(5):
            await waker.stop()
        assert not waker.is_running


async def test_the_event_of_a_queue_that_is_not_claimed_from_is_an_error(place: Place) -> None:
    with pytest.raises(KeyError):
        Waker(place.direct, QUEUES, uuid4()).event("elsewhere")
