"""Laws of `ctx.transaction()`: the handler's rows, its success and what it enqueues are one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.errors import ProgrammingError, UniqueViolation

from hudhud.client import AsyncClient, Client
from hudhud.domain.job import NewJob
from hudhud.errors import LeaseLostError
from tests.support.application import Application, working
from tests.support.gates import Gates, ThreadGates
from tests.support.jobs import Ended, Jobs, watching
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from hudhud.worker.context import Context
    from tests.support.server import Server
    from tests.support.told import Told

EFFECTS = "select count(*) from written"
LIMIT = (
    "select setting::integer from pg_settings where name = 'idle_in_transaction_session_timeout'"
)


@pytest.fixture
async def jobs(database: str) -> AsyncGenerator[Jobs]:
    async with watching(database) as jobs:
        await jobs.connection.execute("create table written (job_id uuid primary key)")
        yield jobs


async def put(ctx: Context, connection: psycopg.AsyncConnection) -> None:
    await connection.execute("insert into written values (%s)", (ctx.job_id,))


async def test_rows_outcome_and_follow_up_jobs_are_committed_together(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), Gates()
    follow_ups: list[str] = []

    @application.handler("first")
    async def first(ctx: Context) -> None:
        async with ctx.transaction(result={"sent": 1}) as connection:
            await put(ctx, connection)
            await AsyncClient().enqueue(connection, NewJob("second", {}))
            gates["written"].set()
            await gates["commit"].wait()

    @application.handler("second")
    async def second(ctx: Context) -> None:
        follow_ups.append(ctx.type)

    async with working(application, database):
        job = await jobs.add("first")
        await gates["written"].wait()
        assert await jobs.value(EFFECTS) == 0
        assert await jobs.status(job) == "running"
        assert await jobs.value("select count(*) from hudhud.job") == 1
        gates["commit"].set()
        await jobs.until("select count(*) = 2 from hudhud.outcome")
        assert await jobs.ends(job) == [Ended(1, 1, "succeed", None)]
        assert await jobs.result(job) == {"sent": 1}
        assert await jobs.value(EFFECTS) == 1
    assert follow_ups == ["second"]


async def test_a_block_that_raises_takes_everything_back(database: str, jobs: Jobs) -> None:
    application = Application()

    @application.handler("first", max_attempts=1)
    async def first(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await put(ctx, connection)
            await AsyncClient().enqueue(connection, NewJob("second", {}))
            message = "no"
            raise ValueError(message)

    async with working(application, database):
        job = await jobs.add("first", max_attempts=1)
        assert await jobs.until_ended(job) == ["dead"]
        assert await jobs.code(job) == "value_error"
        assert await jobs.value(EFFECTS) == 0
        assert await jobs.value("select count(*) from hudhud.job") == 1


@pytest.mark.parametrize("type_", ["first", "plain"])
async def test_an_exception_that_is_falsy_takes_everything_back_too(
    database: str, jobs: Jobs, *, type_: str
) -> None:
    application = Application()

    class Falsy(Exception):  # noqa: N818 - what it is
        def __bool__(self) -> bool:
            return False

    @application.handler("first", max_attempts=1)
    async def first(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await put(ctx, connection)
            raise Falsy

    @application.handler("plain", max_attempts=1)
    def plain(ctx: Context) -> None:
        with ctx.transaction() as connection:
            connection.execute("insert into written values (%s)", (ctx.job_id,))
            raise Falsy

    async with working(application, database):
        assert await jobs.until_ended(await jobs.add(type_)) == ["dead"]
    assert await jobs.value(EFFECTS) == 0


async def test_after_the_commit_the_job_has_succeeded_whatever_follows(
    database: str, jobs: Jobs, told: Told
) -> None:
    application = Application()

    @application.handler("first")
    async def first(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await put(ctx, connection)
        ctx.log("done")  # it may still tell
        with pytest.raises(LeaseLostError):  # and do nothing of the kind a second time
            async with ctx.transaction():
                pass
        message = "too late to matter"
        raise ValueError(message)

    async with working(application, database) as worker:
        job = await jobs.add("first")
        assert await jobs.until_ended(job) == ["succeeded"]
        await auntil(lambda: not worker.runner.running and worker.finisher.is_idle)
        assert await jobs.ends(job) == [Ended(1, 1, "succeed", None)]
        await jobs.until("select count(*) = 0 from hudhud.lease")
    assert not told.of("finish.refused")
    assert not told.of("log.lines_dropped")


async def test_a_transaction_under_a_lost_lease_is_refused_before_the_handler_writes(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), Gates()
    written: list[int] = []

    @application.handler("first")
    async def first(ctx: Context) -> None:
        if ctx.run == 1:
            gates["started"].set()
            await gates["go on"].wait()
        async with ctx.transaction() as connection:
            written.append(ctx.run)
            await put(ctx, connection)

    async with working(application, database):
        job = await jobs.add("first")
        await gates["started"].wait()
        await jobs.connection.execute("update hudhud.lease set locked_until = '-infinity'")
        assert (await jobs.until_run_ended(job)).outcome == "lost"
        gates["go on"].set()
        assert await jobs.until_ended(job) == ["succeeded"]
    assert written == [2]


async def test_nobody_rescues_a_run_whose_transaction_is_open(database: str, jobs: Jobs) -> None:
    application, gates = Application(), Gates()

    @application.handler("first")
    async def first(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await put(ctx, connection)
            gates["written"].set()
            await gates["commit"].wait()

    async with working(application, database):
        job = await jobs.add("first")
        await gates["written"].wait()
        # Another connection: this row is locked by the handler, and an update would wait for it.
        assert await jobs.value("select rescued from hudhud.rescue()") == 0
        gates["commit"].set()
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.ends(job) == [Ended(1, 1, "succeed", None)]


async def test_a_plain_function_commits_as_a_coroutine_does(database: str, jobs: Jobs) -> None:
    application = Application()

    @application.handler("first")
    def first(ctx: Context, *, fails: bool) -> str:
        with ctx.transaction() as connection:
            connection.execute("insert into written values (%s)", (ctx.job_id,))
            Client().enqueue(connection, NewJob("second", {}))
            assert not fails
        ctx.log("done")
        return "not kept: the transaction had no result"

    async with working(application, database):
        fine = await jobs.add("first", {"fails": False})
        failing = await jobs.add("first", {"fails": True}, max_attempts=1)
        assert await jobs.until_ended(fine, failing) == ["succeeded", "dead"]
        assert await jobs.result(fine) is None
        assert await jobs.rows("select job_id from written") == [(fine,)]
        assert await jobs.value("select count(*) from hudhud.job where type = 'second'") == 1


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_statement_that_failed_inside_fails_the_run_though_its_error_was_caught(
    database: str, jobs: Jobs, kind: str
) -> None:
    """PostgreSQL answers the COMMIT of such a transaction with a rollback, and no error."""
    application = Application()
    twice = "insert into written values (%s), (%s)"

    @application.handler("async")
    async def on_loop(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            with pytest.raises(UniqueViolation):
                await connection.execute(twice, (ctx.job_id, ctx.job_id))

    @application.handler("thread")
    def in_thread(ctx: Context) -> None:
        with ctx.transaction() as connection, pytest.raises(UniqueViolation):
            connection.execute(twice, (ctx.job_id, ctx.job_id))

    async with working(application, database):
        job = await jobs.add(kind, max_attempts=1)
        assert await jobs.until_ended(job) == ["dead"]
        assert await jobs.code(job) == "in_failed_sql_transaction"
        error = await jobs.value("select error from hudhud.outcome")
        assert "guard the statement with connection.transaction()" in error


async def test_a_savepoint_guards_a_statement_that_may_fail(database: str, jobs: Jobs) -> None:
    application = Application()

    @application.handler("first")
    async def first(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await put(ctx, connection)
            with pytest.raises(UniqueViolation):
                async with connection.transaction():
                    await put(ctx, connection)

    async with working(application, database):
        job = await jobs.add("first")
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.value(EFFECTS) == 1


async def test_a_handler_cannot_commit_or_roll_back_on_its_own(database: str, jobs: Jobs) -> None:
    """Its success would be committed without the rest, or the rest dropped and success kept."""
    application = Application()

    @application.handler("first")
    async def first(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            with pytest.raises(ProgrammingError):
                await connection.commit()
            with pytest.raises(ProgrammingError):
                await connection.rollback()
            await put(ctx, connection)

    @application.handler("rolled_back")
    async def rolled_back(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await put(ctx, connection)
            raise psycopg.Rollback

    async with working(application, database):
        job = await jobs.add("first")
        other = await jobs.add("rolled_back", max_attempts=1)
        assert await jobs.until_ended(job, other) == ["succeeded", "dead"]
        assert await jobs.rows("select job_id from written") == [(job,)]


async def test_a_plain_function_cannot_commit_or_roll_back_on_its_own(
    database: str, jobs: Jobs
) -> None:
    application = Application()

    @application.handler("first")
    def first(ctx: Context) -> None:
        with ctx.transaction() as connection:
            with pytest.raises(ProgrammingError):
                connection.commit()
            with pytest.raises(ProgrammingError):
                connection.rollback()
            connection.execute("insert into written values (%s)", (ctx.job_id,))

    async with working(application, database):
        job = await jobs.add("first")
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.value(EFFECTS) == 1


async def test_a_part_that_is_still_open_at_the_end_of_the_block_fails_the_run(
    database: str, jobs: Jobs
) -> None:
    """And the connection that it was left open on is not handed to the next handler."""
    application = Application()
    parts: list[object] = []

    @application.handler("first", max_attempts=1)
    async def first(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await put(ctx, connection)
            part = connection.transaction()
            parts.append(part)
            await part.__aenter__()

    @application.handler("second")
    async def second(ctx: Context) -> None:
        async with ctx.transaction(
            result={"quote": "'", "backslash": "\\", "fa": "سلام"}
        ) as connection:
            await put(ctx, connection)

    async with working(application, database):
        job = await jobs.add("first")
        assert await jobs.until_ended(job) == ["dead"]
        other = await jobs.add("second")
        assert await jobs.until_ended(other) == ["succeeded"]
        assert await jobs.result(other) == {"quote": "'", "backslash": "\\", "fa": "سلام"}
        assert await jobs.value(EFFECTS) == 1


async def test_statements_that_come_again_are_prepared_unless_a_pooler_is_in_between(
    database: str, jobs: Jobs, server: Server
) -> None:
    application = Application()
    again, look = "select %s::integer", "select count(*) from pg_prepared_statements"
    seen: list[object] = []

    @application.handler("first")
    async def first(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            for number in range(10):
                await connection.execute(again, (number,))
            seen.extend(await (await connection.execute(look)).fetchall())

    @application.handler("plain")
    def plain(ctx: Context) -> None:
        with ctx.transaction() as connection:
            for number in range(10):
                connection.execute(again, (number,))
            seen.extend(connection.execute(look).fetchall())

    async with working(application, database):
        made = [await jobs.add("first"), await jobs.add("plain")]
        assert await jobs.until_ended(*made) == ["succeeded"] * 2
    is_direct = server.direct(database) == database
    assert seen == [(int(is_direct),)] * 2


async def test_a_run_whose_prepared_statement_has_other_columns_by_now_costs_no_attempt(
    database: str, jobs: Jobs
) -> None:
    application = Application()
    look = "select * from written"

    @application.handler("first", max_attempts=1)
    async def first(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            for _ in range(10):
                await connection.execute(look)

    @application.handler("plain", max_attempts=1)
    def plain(ctx: Context) -> None:
        with ctx.transaction() as connection:
            for _ in range(10):
                connection.execute(look)

    async with working(application, database):
        for column in ("at", "by", "of"):
            made = [await jobs.add("first"), await jobs.add("plain")]
            assert await jobs.until_ended(*made) == ["succeeded"] * 2
            await jobs.connection.execute(f"alter table written add column {column} text".encode())


async def test_a_commit_under_way_is_finished_though_the_handler_is_interrupted(
    database: str, jobs: Jobs, told: Told
) -> None:
    application, gates = Application(), Gates()
    await jobs.connection.execute(
        "create function wait_for_lock() returns trigger language plpgsql as"
        " 'begin perform pg_advisory_xact_lock(7); return null; end'"
    )
    await jobs.connection.execute(
        "create constraint trigger at_commit after insert on written deferrable initially deferred"
        " for each row execute function wait_for_lock()"
    )

    @application.handler("first")
    async def first(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await put(ctx, connection)
            gates["committing"].set()

    async with working(application, database) as worker:
        async with await psycopg.AsyncConnection.connect(database) as holder:
            await holder.execute("select pg_advisory_xact_lock(7)")
            job = await jobs.add("first")
            await gates["committing"].wait()
            await jobs.until(
                "select count(*) > 0 from pg_locks where locktype = 'advisory' and not granted"
            )
            assert await jobs.cancel(job) == "requested"
            await auntil(lambda: [one for one in worker.runner.running if one.ending == "cancel"])
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.value(EFFECTS) == 1
    assert not told.of("finish.refused")


async def test_an_interruption_is_not_forgotten_when_the_commit_under_way_fails(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), Gates()
    caught: list[psycopg.Error] = []
    await jobs.connection.execute(
        "create function wait_for_lock() returns trigger language plpgsql as"
        " 'begin perform pg_advisory_xact_lock(7); return null; end'"
    )
    await jobs.connection.execute(
        "create constraint trigger at_commit after insert on written deferrable initially deferred"
        " for each row execute function wait_for_lock()"
    )

    @application.handler("first")
    async def first(ctx: Context) -> None:
        try:
            async with ctx.transaction() as connection:
                await put(ctx, connection)
                gates["committing"].set()
        except psycopg.Error as error:
            caught.append(error)

    async with (
        working(application, database) as worker,
        await psycopg.AsyncConnection.connect(database) as holder,
    ):
        await holder.execute("select pg_advisory_xact_lock(7)")
        job = await jobs.add("first")
        await gates["committing"].wait()
        waiting = "from pg_locks where locktype = 'advisory' and not granted"
        await jobs.until(f"select count(*) > 0 {waiting}")
        assert await jobs.cancel(job) == "requested"
        await auntil(lambda: [one for one in worker.runner.running if one.ending == "cancel"])
        await jobs.connection.execute(f"select pg_terminate_backend(pid) {waiting}".encode())
        assert await jobs.until_ended(job) == ["cancelled"]
    assert not caught
    assert await jobs.value(EFFECTS) == 0


async def test_a_thread_that_is_given_up_in_its_transaction_is_rolled_back_at_the_server(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), ThreadGates()
    ends: list[BaseException] = []

    @application.handler("first", timeout_seconds=0.1)
    def first(ctx: Context) -> None:
        try:
            with ctx.transaction() as connection:
                connection.execute("insert into written values (%s)", (ctx.job_id,))
                gates["go on"].wait(30)
        except psycopg.Error as error:  # which one depends on what stands between
            ends.append(error)
        try:
            ctx.log("still here")
        except LeaseLostError as error:
            ends.append(error)

    async with working(application, database, threads=8):
        job = await jobs.add("first", max_attempts=1)
        assert await jobs.until_ended(job) == ["dead"]
        assert await jobs.code(job) == "timeout"
        gates["go on"].set()
        await auntil(lambda: len(ends) == 2)
        assert await jobs.value(EFFECTS) == 0
    assert isinstance(ends[0], psycopg.Error)
    assert isinstance(ends[1], LeaseLostError)


async def test_handlers_that_hold_every_connection_hold_up_nobody_else(
    database: str, jobs: Jobs, told: Told
) -> None:
    """A38: claims, finishes and renewals have connections of their own."""
    application, gates = Application(), Gates()
    held = asyncio.Semaphore(0)

    @application.handler("holder")
    async def holder(ctx: Context) -> None:
        ctx.log("about to hold")
        async with ctx.transaction() as connection:
            await put(ctx, connection)
            held.release()
            await gates["let go"].wait()

    @application.handler("plain")
    async def plain(_: Context) -> None:
        return

    async with working(application, database, connections=2, concurrency=20, lease_seconds=1):
        holders = await jobs.add_many("holder", [{}] * 10)
        await held.acquire()
        await held.acquire()
        claimed = await jobs.value("select min(locked_until) from hudhud.lease")
        others = await jobs.add_many("plain", [{}] * 5)
        assert await jobs.until_ended(*others) == ["succeeded"] * 5
        await jobs.until("select count(*) = 10 from hudhud.log")
        # The eight that wait for a connection keep the lease, over its whole length.
        await jobs.until("select bool_and(locked_until > %s) from hudhud.lease", claimed)
        gates["let go"].set()
        assert await jobs.until_ended(*holders) == ["succeeded"] * 10
        assert await jobs.value("select count(*) from hudhud.outcome where run > 1") == 0
    assert not told.of("lease.lost")


async def _close(connection: psycopg.AsyncConnection) -> None:
    await connection.close()


async def _roll_back(connection: psycopg.AsyncConnection) -> None:
    await connection.execute("rollback")


async def _lose(connection: psycopg.AsyncConnection) -> None:
    with suppress(psycopg.OperationalError):
        await connection.execute("select pg_terminate_backend(pg_backend_pid())")


@pytest.mark.parametrize("end", [_close, _roll_back, _lose])
async def test_a_transaction_that_is_gone_at_the_end_of_its_block_has_not_committed(
    database: str, jobs: Jobs, end: Callable[[psycopg.AsyncConnection], Awaitable[None]]
) -> None:
    """However quietly: closed, ended or lost inside the block, the error caught or none."""
    application = Application()

    @application.handler("charge")
    async def charge(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await put(ctx, connection)
            if ctx.attempt == 1:
                await end(connection)

    async with working(application, database):
        job = await jobs.add("charge")
        await jobs.connection.execute("select hudhud.stage()")
        assert await jobs.until_ended(job) == ["succeeded"]
        assert [ended.outcome for ended in await jobs.ends(job)] == ["retry", "succeed"]
        assert await jobs.value(EFFECTS) == 1


async def test_a_transaction_in_which_nothing_happens_is_ended_by_the_server_after_the_time_limit(
    database: str, jobs: Jobs
) -> None:
    """Of a process that is frozen in it, whose fence would hold its neighbours' lease for ever."""
    application, gates = Application(), Gates()
    found: list[int] = []

    @application.handler("charge", timeout_seconds=20)
    async def charge(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            cursor = await connection.execute(LIMIT)
            found.extend(await cursor.fetchone() or ())
        async with await psycopg.AsyncConnection.connect(database) as connection:
            cursor = await connection.execute(LIMIT)
            found.extend(await cursor.fetchone() or ())
        gates["looked"].set()

    async with working(application, database):
        await jobs.add("charge")
        await gates["looked"].wait()
    assert 20_000 <= found[0] <= 25_000
    assert found[1] == 0


async def test_a_transaction_inside_a_transaction_is_refused_and_not_waited_for(
    database: str, jobs: Jobs
) -> None:
    application = Application()

    @application.handler("charge")
    async def charge(ctx: Context) -> None:
        async with ctx.transaction():
            with pytest.raises(RuntimeError, match="open already"):
                await ctx.transaction().__aenter__()

    async with working(application, database):
        job = await jobs.add("charge")
        assert await jobs.until_ended(job) == ["succeeded"]
