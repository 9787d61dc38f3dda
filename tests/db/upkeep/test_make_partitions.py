"""Days are made ahead of time, and nobody who enqueues waits for it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Verbs

PARENTS = ("job", "outcome", "log", "event", "event_job")


def today(db: Verbs) -> date:
    day = db.value("select (clock_timestamp() at time zone 'UTC')::date")
    assert isinstance(day, date)
    return day


def days(db: Verbs, parent: str) -> list[date]:
    return db.values(
        "select to_date(right(c.relname, 8), 'YYYYMMDD') from pg_inherits i"
        " join pg_class c on c.oid = i.inhrelid where i.inhparent = %s::regclass order by 1",
        f"hudhud.{parent}",
    )


@pytest.mark.parametrize("parent", PARENTS)
def test_a_migrated_database_has_yesterday_and_14_days_ahead(db: Verbs, parent: str) -> None:
    expected = [today(db) + timedelta(n) for n in range(-1, 15)]
    assert days(db, parent) == expected
    assert db.answer("days_ahead") == 14


def test_making_again_makes_nothing_and_more_days_make_the_rest(own: Sessions) -> None:
    db = own.open()
    assert db.answer("make_partitions", days=14) == 0
    assert db.answer("make_partitions", days=16) == 2 * len(PARENTS)
    assert db.answer("days_ahead") == 16


def test_there_is_no_default_partition(db: Verbs) -> None:
    bounds = db.values(
        "select pg_get_expr(relpartbound, oid) from pg_class where relispartition"
        " and relkind = 'r' and relnamespace = 'hudhud'::regnamespace"
    )
    assert not [bound for bound in bounds if "DEFAULT" in bound]


@pytest.mark.parametrize("parent", PARENTS)
def test_a_partition_is_indexed_and_checked_as_its_parent(db: Verbs, parent: str) -> None:
    read = (
        "select count(*) from pg_index where indrelid = %s::regclass"
        " union all select count(*) from pg_constraint where conrelid = %s::regclass"
        " and contype in ('c', 'p')"
    )
    child = f"hudhud.{parent}_{today(db):%Y%m%d}"
    assert db.values(read, child, child) == db.values(read, *[f"hudhud.{parent}"] * 2)


def test_an_id_of_a_day_falls_between_its_bounds(db: Verbs) -> None:
    day = today(db)
    job_id = db.enqueue()
    holder = db.value(
        "select relname from hudhud.job j join pg_class c on c.oid = j.tableoid where id = %s",
        job_id,
    )
    assert holder in {f"job_{day + timedelta(n):%Y%m%d}" for n in (0, 1)}


def test_making_days_waits_for_no_enqueue_and_no_enqueue_waits_for_it(own: Sessions) -> None:
    user, maintainer = own.open(), own.open()
    for db in (user, maintainer):
        db.is_impatient = True
    with user.connection.transaction():
        user.enqueue(idempotency_key="before")
        with maintainer.connection.transaction():
            assert maintainer.answer("make_partitions", days=20) == 6 * len(PARENTS)
            user.enqueue(idempotency_key="during")
            user.call("publish", type="order.paid", payload={})
        user.enqueue(idempotency_key="after")
        assert len(user.claim().job_ids) == 3
    assert user.answer("days_ahead") == 20


def test_a_users_open_transaction_is_not_stopped_by_closing_and_keeping_a_day(
    own: Sessions,
) -> None:
    user, maintainer = own.open(), own.open()
    for db in (user, maintainer):
        db.is_impatient = True
    day = today(user) - timedelta(1)
    with user.connection.transaction():
        user.enqueue()
        maintainer.call("close_day", day=day)
        maintainer.call("keep_survivors", day=day)
        maintainer.call("prune")
        user.enqueue()
    assert len(user.claim().job_ids) == 2


def test_a_second_maker_waits_and_finds_the_work_done(own: Sessions) -> None:
    first, second = own.open(), own.open()
    with second.connection.transaction():
        with first.connection.transaction():
            first.answer("make_partitions", days=16)
            waiting = own.start_blocked(
                lambda: second.answer("make_partitions", days=16), waits=second, for_=first
            )
        assert waiting.result(60) == 0


def test_jobs_are_enqueued_after_a_week_without_a_worker(own: Sessions) -> None:
    """No maintainer has run for seven days: seven are left of the fourteen."""
    db = own.open()
    for n in range(8, 15):
        for parent in PARENTS:
            name = f"{parent}_{today(db) + timedelta(n):%Y%m%d}"
            db.connection.execute(f"drop table hudhud.{name}")
    db.enqueue()
    assert db.answer("days_ahead") == 7


def test_a_day_that_was_closed_is_not_made_again(own: Sessions) -> None:
    db = own.open()
    day = today(db) - timedelta(1)
    db.call("close_day", day=day)
    for parent in ("job", "outcome", "log"):  # a day of events that still counts is never dropped
        db.connection.execute(f"drop table hudhud.{parent}_{day:%Y%m%d}")
    assert db.answer("make_partitions", days=14) == 0


def test_without_days_nothing_is_ahead(own: Sessions) -> None:
    db = own.open()
    for parent in PARENTS:
        for day in days(db, parent):
            db.connection.execute(f"drop table hudhud.{parent}_{day:%Y%m%d}")
    assert db.answer("days_ahead") == -1
    with db.refused("23514", "no partition"):
        db.enqueue()
    with db.refused("23514", "no partition"):
        db.call("enqueue_many", types=["mail"], payloads=[{}])
