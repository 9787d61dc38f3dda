"""Laws of inline: a job runs with the commit that made it, and never without."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import psycopg
import pytest

from hudhud import Hudhud, NewJob, Retryable
from hudhud.testing import Inline, StuckError, inline
from tests.support.adapters import ADAPTERS
from tests.support.wait import until

if TYPE_CHECKING:
    from hudhud import Context


@pytest.fixture
def app(database: str) -> Hudhud:
    app = Hudhud(database)

    @app.handler("note")
    async def note(ctx: Context, more: int = 0) -> None:
        async with ctx.transaction() as connection:
            for _ in range(more):
                await app.aclient.enqueue(connection, NewJob("note", {}))

    @app.handler("fail")
    async def fail(_ctx: Context) -> None:
        raise Retryable(after_seconds=3600)

    return app


@pytest.fixture
def django_in_async(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # one test, also for what is not async


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url, prepare_threshold=None)


def test_a_job_has_run_when_the_commit_returns(app: Hudhud, database: str) -> None:
    with inline(app) as inlined, connect(database) as connection:
        app.client.enqueue(connection, NewJob("note", {}))
        assert not inlined.runs
        connection.commit()
        assert [run.outcome for run in inlined.runs] == ["succeed"]


def test_a_job_that_was_rolled_back_is_not_run(app: Hudhud, database: str) -> None:
    with inline(app) as inlined, connect(database) as connection:
        app.client.enqueue(connection, NewJob("note", {}))
        connection.rollback()
        with connection.transaction():
            connection.execute("savepoint before")
            app.client.enqueue(connection, NewJob("note", {}))
            connection.execute("rollback to savepoint before")
        assert not inlined.runs
    assert not inlined.runs


def test_a_connection_may_commit_again_and_again(app: Hudhud, database: str) -> None:
    with inline(app) as inlined, connect(database) as connection:
        for commits in (1, 2, 3):
            with connection.transaction():
                app.client.enqueue_many(connection, [NewJob("note", {}), NewJob("note", {})])
            assert len(inlined.runs) == 2 * commits


def test_in_autocommit_the_enqueue_itself_is_the_commit(app: Hudhud, database: str) -> None:
    with inline(app) as inlined, connect(database) as connection:
        connection.autocommit = True
        app.client.enqueue(connection, NewJob("note", {}))
        assert len(inlined.runs) == 1


def test_what_handlers_enqueue_runs_with_it(app: Hudhud, database: str) -> None:
    with inline(app) as inlined, connect(database) as connection:
        app.client.enqueue(connection, NewJob("note", {"more": 3}))
        connection.commit()
        assert len(inlined.runs) == 4


def test_a_failing_handler_does_not_fail_the_commit(app: Hudhud, database: str) -> None:
    with inline(app) as inlined, connect(database) as connection:
        app.client.enqueue(connection, NewJob("fail", {}))
        connection.commit()
    [run] = inlined.runs
    assert run.outcome == "retry"
    assert isinstance(run.error, Retryable)
    assert inlined.runs.waiting == 1


def test_what_is_due_later_runs_at_once_when_asked_for(app: Hudhud, database: str) -> None:
    with inline(app, scheduled=True) as inlined, connect(database) as connection:
        app.client.enqueue(connection, NewJob("note", {}, delay_seconds=3600))
        connection.commit()
        assert len(inlined.runs) == 1


@pytest.mark.parametrize("name", [name for name in ADAPTERS if "async" not in name])
@pytest.mark.usefixtures("django_in_async")
async def test_it_holds_for_every_library_on_psycopg(app: Hudhud, database: str, name: str) -> None:
    with inline(app) as inlined:
        async with ADAPTERS[name](database).transaction() as connection:
            app.client.enqueue(connection, NewJob("note", {}))
            assert not inlined.runs
        assert len(inlined.runs) == 1


@pytest.mark.parametrize("name", ["psycopg_async", "sqlalchemy_async_session"])
async def test_it_holds_for_asynchronous_connections_on_psycopg(
    app: Hudhud, database: str, name: str
) -> None:
    with inline(app) as inlined:
        async with ADAPTERS[name](database).transaction() as connection:
            await app.aclient.enqueue(connection, NewJob("note", {}))
            await app.aclient.enqueue_many(connection, [NewJob("note", {})])
            assert not inlined.runs
        assert len(inlined.runs) == 2


@pytest.mark.parametrize("name", ["asyncpg", "sqlalchemy_async"])
async def test_elsewhere_jobs_run_when_they_are_settled(
    app: Hudhud, database: str, name: str
) -> None:
    with inline(app) as inlined:
        async with ADAPTERS[name](database).transaction() as connection:
            await app.aclient.enqueue(connection, NewJob("note", {}))
        inlined.settle()
        assert len(inlined.runs) == 1
        async with ADAPTERS[name](database).transaction() as connection:
            await app.aclient.enqueue(connection, NewJob("note", {}))
    assert len(inlined.runs) == 2


def test_after_the_block_nothing_is_run_any_more(app: Hudhud, database: str) -> None:
    with connect(database) as connection:
        with inline(app) as inlined:
            app.client.enqueue(connection, NewJob("note", {}))
            connection.commit()
        app.client.enqueue(connection, NewJob("note", {}))
        connection.commit()
        assert len(inlined.runs) == 1
        status = connection.execute(
            "select count(*) from hudhud.job_status where status = 'pending'"
        ).fetchone()
        assert status == (1,)


def test_a_handler_that_waits_for_the_own_transaction_is_told_of(
    app: Hudhud, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[Inline.__module__], "RUN_SECONDS_MAX", 0.5)

    @app.handler("lock")
    async def lock(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await connection.execute("lock table thing")

    with connect(database) as holder, connect(database) as connection, inline(app) as inlined:
        holder.execute("create table thing ()")
        holder.commit()
        holder.execute("lock table thing")
        app.enqueue(connection, lock)
        connection.commit()
        with pytest.raises(StuckError):
            inlined.settle()
        holder.rollback()
        until(lambda: inlined.runs)
    assert [run.outcome for run in inlined.runs] == ["succeed"]
