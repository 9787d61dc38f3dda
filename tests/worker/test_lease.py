"""Laws of the lease keeper: it renews what outlives half its time, and nothing can hold it up."""

from __future__ import annotations

import threading
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from hudhud.store import jobs
from hudhud.worker.lease import LeaseKeeper
from hudhud.worker.lease_thread import HeldLeases
from tests.support.claiming import Claiming
from tests.support.server import database_of
from tests.support.wait import auntil, until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from tests.support.server import Server
    from tests.support.told import Told

LEASE_SECONDS = 30
PAST_HALF = 20.0


class Kept:
    """A keeper under test and what it reported."""

    def __init__(self, url: str, worker_id: UUID, lease_seconds: int) -> None:
        self.lost: list[UUID] = []
        self.cancelled: list[tuple[UUID, int]] = []
        self.threads: set[int] = set()
        self.keeper = LeaseKeeper(
            url,
            worker_id,
            lease_seconds=lease_seconds,
            on_lost=self._on_lost,
            on_cancel=self._on_cancel,
        )

    def _on_lost(self, lease_id: UUID) -> None:
        self.threads.add(threading.get_ident())
        self.lost.append(lease_id)

    def _on_cancel(self, job_id: UUID, run: int) -> None:
        self.threads.add(threading.get_ident())
        self.cancelled.append((job_id, run))


@pytest.fixture
def claiming(database: str) -> Iterator[Claiming]:
    claiming = Claiming(database)
    yield claiming
    claiming.close()


@asynccontextmanager
async def keeping(
    database: str, claiming: Claiming, *, lease_seconds: int = LEASE_SECONDS
) -> AsyncGenerator[Kept]:
    kept = Kept(database, claiming.worker_id, lease_seconds)
    kept.keeper.start()
    try:
        assert await kept.keeper.ready()
        yield kept
    finally:
        await kept.keeper.stop(within_seconds=30)


async def beats(claiming: Claiming, amount: int) -> None:
    """Wait until the keeper has beaten so many more times."""
    for _ in range(amount):
        seen_at = claiming.seen_at()
        await auntil(lambda seen_at=seen_at: claiming.seen_at() != seen_at)  # type: ignore[misc] # binds this one


async def test_a_lease_within_half_its_time_is_never_renewed(
    database: str, claiming: Claiming
) -> None:
    claiming.enqueue(100)
    lease_id = claiming.claim(100).lease_id
    locked_until = claiming.locked_until(lease_id)
    async with keeping(database, claiming) as kept:
        kept.keeper.hold(lease_id, time.monotonic())
        await beats(claiming, 3)
    assert claiming.locked_until(lease_id) == locked_until


async def test_a_lease_past_half_its_time_is_renewed_once_for_the_next_half(
    database: str, claiming: Claiming
) -> None:
    claiming.enqueue()
    lease_id = claiming.claim().lease_id
    locked_until = claiming.locked_until(lease_id)
    async with keeping(database, claiming) as kept:
        kept.keeper.hold(lease_id, time.monotonic() - PAST_HALF)
        await auntil(lambda: claiming.locked_until(lease_id) != locked_until)
        renewed_until = claiming.locked_until(lease_id)
        await beats(claiming, 3)
    assert claiming.locked_until(lease_id) == renewed_until
    assert kept.lost == []


async def test_ids_kept_as_text_are_renewed_like_any(database: str, claiming: Claiming) -> None:
    claiming.enqueue()
    lease_id = claiming.claim().lease_id
    locked_until = claiming.locked_until(lease_id)
    async with keeping(database, claiming) as kept:
        kept.keeper.hold(str(lease_id), time.monotonic() - PAST_HALF)  # type: ignore[arg-type] # as a claim link reads it
        await auntil(lambda: claiming.locked_until(lease_id) != locked_until)
        await beats(claiming, 2)
    assert kept.lost == []


async def test_a_released_lease_is_not_renewed(database: str, claiming: Claiming) -> None:
    claiming.enqueue(2)
    released, held = (claiming.claim().lease_id for _ in range(2))
    before = {lease: claiming.locked_until(lease) for lease in (released, held)}
    async with keeping(database, claiming) as kept:
        kept.keeper.hold(released, time.monotonic() - PAST_HALF)
        kept.keeper.release(released)
        kept.keeper.hold(held, time.monotonic() - PAST_HALF)
        await auntil(lambda: claiming.locked_until(held) != before[held])
    assert claiming.locked_until(released) == before[released]


async def test_a_lost_lease_is_reported_once_and_on_the_loop(
    database: str, claiming: Claiming, told: Told
) -> None:
    claiming.enqueue()
    held = claiming.claim().lease_id
    lost, released = uuid4(), uuid4()
    async with keeping(database, claiming) as kept:
        kept.keeper.hold(lost, time.monotonic() - PAST_HALF)
        kept.keeper.hold(held, time.monotonic())
        kept.keeper.hold(released, time.monotonic() - PAST_HALF)
        kept.keeper.release(released)
        await auntil(lambda: kept.lost)
        await beats(claiming, 1)
    assert kept.lost == [lost]
    assert kept.threads == {threading.get_ident()}
    assert told.of("lease.lost") == [{"lease_id": lost}]


async def test_another_workers_lease_is_not_ours_to_renew(
    database: str, claiming: Claiming
) -> None:
    claiming.enqueue()
    lease_id = claiming.claim().lease_id
    locked_until = claiming.locked_until(lease_id)
    other = Claiming(database)
    async with keeping(database, other) as kept:
        kept.keeper.hold(lease_id, time.monotonic() - PAST_HALF)
        await auntil(lambda: kept.lost)
    assert claiming.locked_until(lease_id) == locked_until
    other.close()


async def test_a_blocked_loop_keeps_its_leases_and_is_seen_as_stalled(
    database: str, claiming: Claiming, told: Told
) -> None:
    """FAILURES A03: the heartbeat is not on that loop, and the lag is visible."""
    claiming.enqueue()
    lease_id = claiming.claim(lease_seconds=3).lease_id
    async with keeping(database, claiming, lease_seconds=3) as kept:
        kept.keeper.hold(lease_id, time.monotonic())
        until_first = claiming.locked_until(lease_id)
        until(lambda: claiming.locked_until(lease_id) != until_first)  # blocks this loop
        until_second = claiming.locked_until(lease_id)
        until(lambda: claiming.locked_until(lease_id) != until_second)
        await auntil(lambda: told.of("loop.recovered"))
        assert kept.lost == []
    (stalled,), (recovered,) = told.of("loop.stalled"), told.of("loop.recovered")
    assert float(str(stalled["lag_seconds"])) > 1
    assert float(str(recovered["lag_seconds"])) > float(str(stalled["lag_seconds"]))


async def test_a_cancel_request_is_passed_on_until_its_run_has_ended(
    database: str, claiming: Claiming
) -> None:
    (job_id,) = claiming.enqueue()
    claimed = claiming.claim()
    async with keeping(database, claiming) as kept:
        kept.keeper.hold(claimed.lease_id, time.monotonic())
        assert claiming.run(jobs.cancel(job_id, actor="test")) == "requested"
        await auntil(lambda: len(kept.cancelled) > 1)
        await beats(claiming, 2)
    assert set(kept.cancelled) == {(job_id, 1)}
    assert kept.threads == {threading.get_ident()}


async def test_a_lease_survives_a_database_that_is_away_for_a_while(
    server: Server, database: str, told: Told
) -> None:
    claiming = Claiming(database)
    claiming.enqueue()
    lease_id = claiming.claim().lease_id
    locked_until = claiming.locked_until(lease_id)
    name = database_of(database)
    allow = sql.SQL("alter database {} allow_connections {}")
    end = (
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = %s and application_name = 'hudhud lease'"
    )
    with psycopg.connect(server.admin(), autocommit=True) as admin:
        async with keeping(server.direct(database), claiming) as kept:
            await beats(claiming, 1)
            admin.execute(allow.format(sql.Identifier(name), sql.Literal(False)))  # noqa: FBT003
            admin.execute(end, [name])
            kept.keeper.hold(lease_id, time.monotonic() - PAST_HALF)
            await auntil(lambda: len(told.of("lease.keeper_failed")) >= 3)
            assert kept.keeper.crashes == 0
            admin.execute(allow.format(sql.Identifier(name), sql.Literal(True)))  # noqa: FBT003
            await auntil(lambda: claiming.locked_until(lease_id) != locked_until)
            assert kept.lost == []
    claiming.close()


async def test_a_stop_ends_the_thread_and_its_connection(
    server: Server, database: str, claiming: Claiming
) -> None:
    query = (
        "select count(*) from pg_stat_activity"
        " where datname = %s and application_name = 'hudhud lease'"
    )

    def connections() -> int:
        with psycopg.connect(server.admin()) as admin:
            row = admin.execute(query, [database_of(database)]).fetchone()
            assert row is not None
            return int(row[0])

    async with keeping(server.direct(database), claiming):
        await beats(claiming, 1)
        assert connections() == 1
    await auntil(lambda: connections() == 0)
    assert "hudhud-lease" not in [thread.name for thread in threading.enumerate()]


async def test_a_stop_during_an_outage_still_ends(claiming: Claiming, told: Told) -> None:
    async with keeping("postgresql://nobody@127.0.0.1:1/none", claiming) as kept:
        await auntil(lambda: told.of("lease.keeper_failed"))
    assert not kept.keeper.is_running
    assert "service.cancelled" not in told.names


def test_leases_are_due_oldest_first_and_only_past_half_their_time() -> None:
    held = HeldLeases(30)
    young, old, oldest = uuid4(), uuid4(), uuid4()
    held.hold(young, 100.0)
    held.hold(old, 90.0)
    held.hold(oldest, 80.0)
    assert held.due(104.9) == [oldest]
    assert held.due(105.0) == [oldest, old]
    held.renew([oldest], 105.0)
    assert held.due(114.0) == [old]


def test_a_renewal_that_comes_after_the_release_does_not_hold_it_again() -> None:
    held = HeldLeases(30)
    lease_id = uuid4()
    held.hold(lease_id, 0.0)
    assert held.release(lease_id)
    held.renew([lease_id], 1.0)
    assert len(held) == 0
    assert not held.release(lease_id)
