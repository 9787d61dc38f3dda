"""Dropping a day by the statements that cannot live in functions, while everybody goes on."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from hudhud.drivers.psycopg import run
from hudhud.store import partitions
from tests.support.sessions import SECONDS, Sessions
from tests.support.wait import until

if TYPE_CHECKING:
    from tests.support.verbs import Verbs


def yesterday(db: Verbs) -> date:
    day = db.value("select (clock_timestamp() at time zone 'UTC')::date - 1")
    assert isinstance(day, date)
    return day


def drop(db: Verbs, day: date) -> int:
    """Drop a day as the maintainer does; return how many tables went."""
    db.call("close_day", day=day)
    db.call("keep_survivors", day=day)
    standing = partitions.partitions(run(db.connection, partitions.to_day(day)))
    for partition in standing:
        for statement in partitions.steps(partition):
            db.connection.execute(statement.encode())
    return len(standing)


def test_a_day_goes_with_its_three_tables(own: Sessions) -> None:
    db = own.open()
    day = yesterday(db)
    assert drop(db, day) == 3
    assert drop(db, day) == 0
    left = db.values("select relname from pg_class where relname like %s", f"%_{day:%Y%m%d}")
    assert left == [f"event_{day:%Y%m%d}", f"event_job_{day:%Y%m%d}"]  # which goes by its own rules


@pytest.mark.parametrize("done", [1, 2])
def test_a_drop_that_was_interrupted_goes_on_from_where_it_was(own: Sessions, done: int) -> None:
    db = own.open()
    day = yesterday(db)
    db.call("close_day", day=day)
    job, *_ = partitions.partitions(run(db.connection, partitions.to_day(day)))
    for statement in partitions.steps(job)[:done]:
        db.connection.execute(statement.encode())
    assert drop(db, day) == (3 if done == 1 else 2)


def test_a_detach_that_was_broken_off_is_finished(own: Sessions) -> None:
    user, maintainer, db = own.open(), own.open(), own.open()
    day = yesterday(db)
    with user.connection.transaction():
        user.enqueue()
        waiting = own.start(lambda: drop(maintainer, day))
        until(lambda: db.value(_DETACHES))
        db.value(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where query ilike '%%detach%%' and pid <> pg_backend_pid()"
        )
        until(waiting.done)
        assert waiting.exception() is not None
    states = {
        one.state for one in partitions.partitions(run(db.connection, partitions.to_day(day)))
    }
    assert states == {"detaching", "attached"}
    assert drop(db, day) == 3


_DETACHES = """
    select exists (
        select from pg_stat_activity
        where query ilike '%%detach%%concurrently%%' and wait_event_type = 'Lock')
"""


def test_nobody_waits_for_a_day_that_is_being_dropped(own: Sessions) -> None:
    """Neither a transaction that was open before, nor one that begins while the drop waits."""
    user, other, maintainer = own.open(), own.open(), own.open()
    day = yesterday(user)
    user.is_impatient = other.is_impatient = True
    with user.connection.transaction():
        user.enqueue()
        dropping = own.start(lambda: drop(maintainer, day))
        until(lambda: other.value(_DETACHES))
        user.enqueue(idempotency_key="k")
        user.call("enqueue_many", types=["mail"], payloads=[{}] * 3)
        other.enqueue()
        claim = other.claim(lanes=[2], tenants=["default"])
        assert other.finish(claim).settled == 1
        assert not dropping.done()
    assert dropping.result(SECONDS) == 3
    assert len(other.claim(10).job_ids) == 5


def test_days_are_made_while_one_is_dropped(own: Sessions) -> None:
    user, maintainer, other = own.open(), own.open(), own.open()
    day = yesterday(user)
    assert drop(maintainer, day) == 3
    assert other.answer("make_partitions", days=15) == 5
    with user.connection.transaction():
        user.enqueue()
    newest = other.value("select (clock_timestamp() at time zone 'UTC')::date") + timedelta(15)
    assert other.value("select to_regclass(%s) is not null", f"hudhud.job_{newest:%Y%m%d}")
