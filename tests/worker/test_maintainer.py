"""Laws of the maintainer: what is due moves, what was lost comes back, old days go."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import scalar_row

from hudhud.domain.job import NewJob
from hudhud.store import jobs
from hudhud.worker.maintainer import Housekeeping, Maintainer
from tests.support.claiming import TYPE, Claiming
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from tests.support.server import Server
    from tests.support.told import Told

OLD_JOBS = """
    insert into hudhud.job
        (id, shard, version, lane, max_attempts, created_at, tenant_id, type, queue, payload)
    select hudhud.first_id(at), 0, 1, 2, 20, at, 'default', 'count', 'default', '{}'
    from unnest(array['2020-01-01 01:00', '2020-01-01 02:00']::timestamptz[]) at
"""
OLD_OUTCOME = """
    insert into hudhud.outcome
        (job_id, run, shard, attempt, worker_id, claimed_at, finished_at, outcome)
    select id, 1, 0, 1, id, created_at, created_at, 'succeed'
    from hudhud.job where id = hudhud.first_id('2020-01-01 01:00')
"""
LAST_LOG_DAY = """
    select max(right(relname, 8))::int from pg_class where relname ~ '^log_[0-9]{8}$'
"""
PARENTS = ("job", "outcome", "log")


@pytest.fixture
def claiming(database: str) -> Iterator[Claiming]:
    claiming = Claiming(database)
    yield claiming
    claiming.close()


@pytest.fixture
def direct(server: Server, database: str) -> str:
    """The database past PgBouncer, in a run through that."""
    return server.direct(database)


@asynccontextmanager
async def maintaining(url: str, *, house_seconds: float = 3600) -> AsyncGenerator[Maintainer]:
    maintainer = Maintainer(url, house_seconds=house_seconds)
    maintainer.start()
    try:
        yield maintainer
    finally:
        await maintainer.stop(within_seconds=30)


def ready(claiming: Claiming) -> int:
    return value(claiming, "select count(*) from hudhud.ready")


def value(claiming: Claiming, query: str) -> int:
    cursor = claiming.connection.cursor(row_factory=scalar_row)
    return int(cursor.execute(query.encode()).fetchone() or 0)


def old_day(claiming: Claiming) -> None:
    """Make the partitions of a day long past, with a job that has ended and one that has not."""
    child = sql.SQL(
        "create table hudhud.{} (like hudhud.{}"
        " including defaults including constraints including indexes)"
    )
    attach = sql.SQL(
        "alter table hudhud.{} attach partition hudhud.{}"
        " for values from (hudhud.first_id('2020-01-01')) to (hudhud.first_id('2020-01-02'))"
    )
    for parent in PARENTS:
        name, day = sql.Identifier(parent), sql.Identifier(f"{parent}_20200101")
        claiming.connection.execute(child.format(day, name))
        claiming.connection.execute(attach.format(name, day))
    claiming.connection.execute(OLD_JOBS)
    claiming.connection.execute(OLD_OUTCOME)


def old_tables(claiming: Claiming) -> int:
    return value(
        claiming,
        "select count(*) from pg_class where relkind = 'r' and relname ~ '_20200101$'",
    )


async def test_a_job_is_ready_soon_after_it_is_due(database: str, claiming: Claiming) -> None:
    claiming.run(jobs.enqueue(NewJob(TYPE, {}, delay_seconds=0.2)))
    assert ready(claiming) == 0
    async with maintaining(database):
        await auntil(lambda: ready(claiming) == 1)


async def test_more_jobs_than_one_step_takes_are_all_moved(
    database: str, claiming: Claiming
) -> None:
    due = [NewJob(TYPE, {}, delay_seconds=0.01) for _ in range(2500)]
    claiming.run(jobs.enqueue_many(due))
    async with maintaining(database):
        await auntil(lambda: ready(claiming) == 2500)


async def test_a_lease_that_ran_out_is_rescued_whatever_became_of_its_worker(
    database: str, claiming: Claiming, told: Told
) -> None:
    """FAILURES A02: the lease decides, not the row of the worker that held it."""
    claiming.enqueue(3)
    claiming.claim(3, lease_seconds=1)
    claiming.connection.execute("delete from hudhud.worker")
    async with maintaining(database), maintaining(database):
        await auntil(lambda: ready(claiming) == 3)
    assert sum(int(str(fields["jobs_ready"])) for fields in told.of("lease.rescued")) == 3


async def test_partitions_are_made_for_the_days_to_come(database: str, claiming: Claiming) -> None:
    (name,) = claiming.connection.execute(
        "select max(relname) from pg_class where relname ~ '^log_[0-9]{8}$'"
    ).fetchone() or ("",)
    claiming.connection.execute(sql.SQL("drop table hudhud.{}").format(sql.Identifier(name)))
    async with maintaining(database):
        await auntil(lambda: value(claiming, LAST_LOG_DAY) == int(name[-8:]))


async def test_a_round_that_fails_is_reported_and_stops_nothing_else(
    database: str, claiming: Claiming, told: Told
) -> None:
    claiming.connection.execute("alter function hudhud.prune rename to prune_away")
    claiming.run(jobs.enqueue(NewJob(TYPE, {}, delay_seconds=0.05)))
    async with maintaining(database, house_seconds=0.05) as maintainer:
        await auntil(lambda: len(told.of("maintainer.housekeeping_failed")) >= 2)
        await auntil(lambda: ready(claiming) == 1)
        assert maintainer.crashes == 0


async def test_a_day_whose_time_is_over_goes_and_what_has_not_ended_stays(
    database: str, claiming: Claiming, told: Told
) -> None:
    old_day(claiming)
    await Housekeeping(database).go_round()
    assert old_tables(claiming) == 0
    assert value(claiming, "select count(*) from hudhud.job_kept") == 1
    assert (
        value(claiming, "select count(*) from hudhud.job_all where created_at < '2020-01-02'") == 1
    )
    assert told.of("partition.dropped")[0]["kept_jobs"] == 1


async def test_a_day_is_not_dropped_while_somebody_may_still_write_into_it(
    direct: str, claiming: Claiming, told: Told
) -> None:
    old_day(claiming)
    with psycopg.connect(direct) as writer:
        writer.execute("select pg_current_xact_id()")
        await Housekeeping(direct, settle_seconds=0).go_round()
        assert old_tables(claiming) == 3
        assert told.of("partition.drop_delayed")
    await Housekeeping(direct).go_round()
    assert old_tables(claiming) == 0


async def test_a_detach_that_was_interrupted_is_taken_up_again(
    direct: str, claiming: Claiming
) -> None:
    old_day(claiming)
    with psycopg.connect(direct) as reader:
        reader.execute("select from hudhud.job where created_at < '2020-01-02'")
        with pytest.raises(TimeoutError):
            await Housekeeping(direct, statement_seconds=0.2).go_round()
        assert value(claiming, "select count(*) from pg_inherits where inhdetachpending") == 1
    await Housekeeping(direct).go_round()
    assert old_tables(claiming) == 0
    assert value(claiming, "select count(*) from hudhud.job_kept") == 1


async def test_a_table_left_detached_by_a_crash_is_dropped_with_the_next_day(
    database: str, claiming: Claiming
) -> None:
    old_day(claiming)
    claiming.connection.execute("create table hudhud.job_20191231 (like hudhud.job)")
    await Housekeeping(database).go_round()
    assert value(claiming, "select count(*) from pg_class where relname = 'job_20191231'") == 0


async def test_enqueues_go_on_while_a_day_is_taken_away(direct: str, claiming: Claiming) -> None:
    old_day(claiming)
    with psycopg.connect(direct) as reader:
        reader.execute("select from hudhud.job where created_at < '2020-01-02'")
        with pytest.raises(TimeoutError):
            await Housekeeping(direct, statement_seconds=0.2).go_round()
        claiming.connection.execute("set statement_timeout = '5s'")
        assert len(claiming.enqueue(10)) == 10


async def test_a_maintainer_survives_the_end_of_its_connection(
    direct: str, claiming: Claiming, told: Told
) -> None:
    async with maintaining(direct) as maintainer:
        await maintainer.ready()
        with psycopg.connect(direct, autocommit=True) as other:
            other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name = 'hudhud maintainer'"
            )
        await auntil(lambda: told.of("service.crashed"))
        claiming.run(jobs.enqueue(NewJob(TYPE, {}, delay_seconds=0.05)))
        await auntil(lambda: ready(claiming) == 1)
