"""Laws of the settable clock: it stands still everywhere, and goes away without a trace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from hudhud import Hudhud, NewJob, Retryable
from hudhud.errors import ConfigError, PermissionDeniedError
from hudhud.store import migrate, runs, upkeep
from hudhud.testing import Clock, drain, set_clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hudhud import Context
    from tests.support.server import Server

THEN = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def app(database: str) -> Hudhud:
    app = Hudhud(database)

    @app.handler("remind")
    async def remind(_ctx: object) -> None:
        pass

    @app.handler("flaky", max_attempts=5)
    async def flaky(ctx: Context) -> None:
        if ctx.attempt < 3:
            raise Retryable(after_seconds=600)

    return app


@pytest.fixture
def other(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True, prepare_threshold=None) as connection:
        yield connection


def now(connection: psycopg.Connection) -> datetime:
    row = connection.execute("select hudhud.clock()").fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


def test_time_stands_still_for_every_session(database: str, other: psycopg.Connection) -> None:
    assert now(other) != now(other)
    set_clock(database, THEN)
    assert now(other) == now(other) == THEN
    assert Clock(database).now() == THEN


def test_a_plan_that_a_session_had_before_follows_the_clock(
    app: Hudhud, database: str, other: psycopg.Connection
) -> None:
    for _ in range(10):  # enough for PostgreSQL to keep the plans of the function
        app.client.enqueue(other, NewJob("remind", {}))
    set_clock(database, THEN)
    job = app.client.enqueue(other, NewJob("remind", {}))
    status = app.client.status(other, job.id)
    assert status is not None
    assert status.created_at == THEN


def test_a_delayed_job_is_due_when_the_clock_says_so(app: Hudhud, database: str) -> None:
    with set_clock(database, THEN) as clock:
        with app.transaction() as connection:
            app.client.enqueue(connection, NewJob("remind", {}, delay_seconds=3 * 86_400))
        assert not drain(app)
        clock.advance(days=2, duration=86_399)
        assert not drain(app)
        assert clock.advance(1) == THEN + timedelta(days=3)
        assert [run.outcome for run in drain(app)] == ["succeed"]
    app.close()


def test_retries_wait_by_the_clock(app: Hudhud, database: str) -> None:
    with set_clock(database, THEN) as clock:
        with app.transaction() as connection:
            app.client.enqueue(connection, NewJob("flaky", {}))
        assert [run.outcome for run in drain(app)] == ["retry"]
        assert drain(app).waiting == 1
        clock.advance(timedelta(minutes=10))
        assert [run.outcome for run in drain(app)] == ["retry"]
        clock.advance(timedelta(minutes=20))
        assert [run.outcome for run in drain(app)] == ["succeed"]
    app.close()


def test_a_lease_ends_by_the_clock(app: Hudhud, database: str, other: psycopg.Connection) -> None:
    with set_clock(database, THEN) as clock:
        app.client.enqueue(other, NewJob("remind", {}))
        worker = "00000000-0000-0000-0000-000000000001"
        request = runs.ClaimRequest(worker, "default", [2], ["default"], [0], [1], 30)  # type: ignore[arg-type]
        assert app.client.run(other, runs.claim(request)) is not None
        assert app.client.run(other, upkeep.rescue()).rescued == 0
        clock.advance(30)
        assert app.client.run(other, upkeep.rescue()).rescued == 1


def test_the_end_of_the_block_brings_the_real_clock_back(
    database: str, other: psycopg.Connection
) -> None:
    with set_clock(database, THEN):
        pass
    assert abs(real_distance(other)) < timedelta(minutes=1)
    assert migrate.pending(database) == []
    assert other.execute("select to_regclass('hudhud.test_clock')").fetchone() == (None,)
    Clock(database).clear()  # again, and nothing is wrong with that


def test_a_migration_brings_the_real_clock_back(database: str, other: psycopg.Connection) -> None:
    clock = set_clock(database, THEN)
    assert [script.path for script in migrate.pending(database)] == ["base/clock.sql"]
    migrate.apply(database)
    assert abs(real_distance(other)) < timedelta(minutes=1)
    with pytest.raises(ConfigError, match="set_clock first"):
        clock.advance(1)
    clock.set(THEN)
    assert now(other) == THEN


def real_distance(connection: psycopg.Connection) -> timedelta:
    row = connection.execute("select clock_timestamp() - hudhud.clock()").fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


def test_time_does_not_go_backwards_by_advancing(database: str) -> None:
    with set_clock(database, THEN) as clock:
        with pytest.raises(ConfigError, match="backwards"):
            clock.advance(-1)
        clock.set(THEN - timedelta(days=1))
        assert clock.now() == THEN - timedelta(days=1)


def test_a_clock_that_was_not_set_cannot_be_advanced(database: str) -> None:
    with pytest.raises(ConfigError, match="set_clock first"):
        Clock(database).advance(1)


def test_an_instant_without_a_zone_is_refused(database: str) -> None:
    with pytest.raises(ConfigError, match="zone"):
        set_clock(database, datetime(2030, 1, 1))  # noqa: DTZ001 - that is the point


def test_nobody_but_the_owner_of_the_schema_can_set_the_clock(
    server: Server, database: str
) -> None:
    with psycopg.connect(server.admin(database), autocommit=True) as admin:
        admin.execute("create role visitor_of_clocks login")
        try:
            admin.execute("grant usage on schema hudhud to visitor_of_clocks")
            admin.execute("grant select on all tables in schema hudhud to visitor_of_clocks")
            admin.execute("grant execute on function hudhud.clock() to visitor_of_clocks")
            visitor = database.replace("hudhud@", "visitor_of_clocks@", 1)
            with pytest.raises(PermissionDeniedError, match="owner"):
                set_clock(visitor, THEN)
            # But whoever may ask for the time gets the one that the owner has set.
            with set_clock(database, THEN):
                assert Clock(visitor).now() == THEN
        finally:
            admin.execute("drop owned by visitor_of_clocks")
            admin.execute("drop role visitor_of_clocks")
