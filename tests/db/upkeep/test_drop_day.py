"""A day's partitions go; whatever is still needed of it stays, and is found as before."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from hudhud.store import migrate
from tests.support.verbs import WORKER, end

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tests.support.sessions import Sessions
    from tests.support.verbs import Row, Verbs

AGE_DAYS = 20
FINAL = {"succeed": "succeeded", "cancel": "cancelled", "fail": "dead"}


@pytest.fixture
def old(db: Verbs) -> Verbs:
    """Give the verbs on a database whose clock stands on a day 20 days ago, ids included."""
    db.take_clock()
    db.connection.execute(
        "update hudhud.test_clock set at ="
        " date_trunc('day', at - make_interval(days => %s), 'UTC') + interval '12 hours'",
        [AGE_DAYS],
    )
    new_id = (migrate.SQL / "functions" / "base" / "new_id.sql").read_text("utf-8")
    db.connection.execute(new_id.replace("clock_timestamp()", "hudhud.clock()").encode())
    make_day(db, day_of(db))
    return db


def day_of(db: Verbs) -> date:
    day = db.value("select (hudhud.clock() at time zone 'UTC')::date")
    assert isinstance(day, date)
    return day


def make_day(db: Verbs, day: date) -> None:
    for parent in ("job", "outcome", "log"):
        db.connection.execute(
            f"create table hudhud.{parent}_{day:%Y%m%d} partition of hudhud.{parent} for values"
            f" from ('{first_id(db, day)}') to ('{first_id(db, day + timedelta(1))}')"
        )


def first_id(db: Verbs, day: date) -> UUID:
    return db.value(  # type: ignore[no-any-return]
        "select hudhud.first_id(%s::timestamp at time zone 'UTC')", day
    )


def pass_days(db: Verbs, days: float) -> None:
    db.advance(days * 86_400)


def drop(db: Verbs, day: date) -> int:
    """Close a day, keep its survivors, drop its partitions; return how many survived."""
    db.call("close_day", day=day)
    kept = int(db.answer("keep_survivors", day=day))
    for parent in ("job", "outcome", "log"):
        name = f"{parent}_{day:%Y%m%d}"
        db.connection.execute(f"alter table hudhud.{parent} detach partition hudhud.{name}")
        db.connection.execute(f"drop table hudhud.{name}")
    return kept


def log(db: Verbs, job_id: UUID, run: int) -> None:
    lines = [{"level": "info", "message": f"line {run}", "progress": None}]
    db.call("write_log", job_id=job_id, run=run, lines=lines)


def everything(db: Verbs, job_id: UUID) -> tuple[Row, list[Row], list[Row]]:
    lines = db.rows("select run, level, message from hudhud.log_all where job_id = %s", job_id)
    return db.status(job_id), db.outcomes(job_id), lines


def ready(db: Verbs) -> UUID:
    return db.enqueue()


def scheduled_for_a_month(db: Verbs) -> UUID:
    """A54: far-future."""
    return db.enqueue(delay=timedelta(days=60))


def retried(db: Verbs) -> UUID:
    job_id = db.enqueue()
    claim = db.claim_one()
    log(db, job_id, 1)
    db.end(claim, "retry", code="boom", delay_seconds=40 * 86_400)
    return job_id


def snoozed(db: Verbs) -> UUID:
    db.enqueue()
    return db.run("snooze", delay_seconds=40 * 86_400)


def held(db: Verbs) -> UUID:
    db.enqueue(version=2)
    return db.run("hand_back", code="no_handler")


def running(db: Verbs) -> UUID:
    job_id = db.enqueue()
    db.claim_one(lease_seconds=40 * 86_400)
    return job_id


def dead_within_retention(db: Verbs) -> UUID:
    job_id = db.enqueue()
    claim = db.claim_one()
    log(db, job_id, 1)
    db.end(claim, "fail", code="boom", error="why")
    return job_id


UNFINISHED = [ready, scheduled_for_a_month, retried, snoozed, held, running]


@pytest.mark.parametrize("survivor", [*UNFINISHED, dead_within_retention])
def test_what_is_still_needed_survives_its_day_as_it_was(
    old: Verbs, survivor: Callable[[Verbs], UUID]
) -> None:
    """A54."""
    day = day_of(old)
    job_id = survivor(old)
    before = everything(old, job_id)
    pass_days(old, AGE_DAYS)
    assert drop(old, day) == 1
    assert old.value("select count(*) from hudhud.job") == 0
    assert everything(old, job_id) == before
    for _ in range(2):
        old.answer("prune")
    assert everything(old, job_id) == before


@pytest.mark.parametrize("survivor", UNFINISHED)
@pytest.mark.parametrize("outcome", ["succeed", "fail", "cancel", "retry"])
def test_a_survivor_is_claimed_and_ends_although_its_day_is_gone(
    old: Verbs, survivor: Callable[[Verbs], UUID], outcome: str
) -> None:
    """A54."""
    day = day_of(old)
    job_id = survivor(old)
    pass_days(old, AGE_DAYS)
    drop(old, day)
    if survivor is running:
        lease = old.row("select id as lease_id, job_ids from hudhud.lease")
    else:
        if old.place(job_id) != "ready":
            old.call("reschedule", job_id=job_id, available_at=None, actor="ann")
        lease = old.claim_one()
        assert lease.payloads == ["{}"]
        assert lease.types == ["mail"]
    assert old.end(lease, outcome, code="end").settled == 1
    log(old, job_id, 9)
    assert old.status(job_id).status == FINAL.get(outcome, "retryable")
    assert old.finish(lease) == (0, [lease.lease_id], 0)
    assert old.value("select count(*) from hudhud.outcome") == 0
    assert old.value("select message from hudhud.log_all order by line desc limit 1") == "line 9"


def test_a_survivor_runs_in_a_batch_with_younger_jobs(old: Verbs) -> None:
    day = day_of(old)
    ids = [old.enqueue(payload={"n": 1})]
    pass_days(old, AGE_DAYS)
    drop(old, day)
    ids.append(old.enqueue(payload={"n": 2}))
    claim = old.claim(10)
    assert claim.job_ids == ids
    assert claim.payloads == ['{"n": 1}', '{"n": 2}']
    assert old.finish(claim) == (2, [], 0)
    assert [old.status(job_id).status for job_id in ids] == ["succeeded"] * 2


def test_a_survivor_whose_worker_died_is_rescued(old: Verbs) -> None:
    day = day_of(old)
    job_id = running(old)
    pass_days(old, AGE_DAYS)
    drop(old, day)
    pass_days(old, 30)
    assert old.answer("rescue") == (1, 0)
    assert old.claim_one().job_ids == [job_id]


def test_a_survivor_can_be_cancelled_settled_and_replayed(old: Verbs) -> None:
    day = day_of(old)
    waits, runs, died = scheduled_for_a_month(old), running(old), dead_within_retention(old)
    pass_days(old, AGE_DAYS)
    drop(old, day)
    assert old.answer("cancel", job_id=waits, actor="ann") == "cancelled"
    assert old.status(waits).status == "cancelled"
    assert old.answer("cancel", job_id=runs, actor="ann") == "requested"
    assert old.answer("beat", worker_id=WORKER) == ([runs], [1])
    lease_id = old.value("select id from hudhud.lease")
    assert old.answer("settle", lease_id=lease_id, place=1) is True
    assert old.answer("settle", lease_id=lease_id, place=1) is False
    assert old.status(runs).status == "succeeded"
    assert old.answer("beat", worker_id=WORKER) == ([], [])
    again = old.answer("replay", job_id=died, actor="ann", reason="r")
    assert old.status(again).status == "pending"


def test_a_key_holds_as_long_as_its_job_is_kept(old: Verbs) -> None:
    day = day_of(old)
    kept = old.enqueue(idempotency_key="kept", delay=timedelta(days=60))
    gone = old.enqueue(idempotency_key="gone")
    old.run("succeed")
    pass_days(old, AGE_DAYS)
    drop(old, day)
    old.answer("prune")
    assert old.enqueue(idempotency_key="kept") == kept
    assert old.enqueue(idempotency_key="gone") != gone


@pytest.mark.parametrize("outcome", FINAL)
def test_a_job_in_each_final_state_goes_when_its_retention_is_over(
    old: Verbs, outcome: str
) -> None:
    """A54, A55: counted from its end, not from its creation."""
    day = day_of(old)
    job_id = old.enqueue()
    claim = old.claim_one(lease_seconds=100 * 86_400)
    pass_days(old, AGE_DAYS)
    old.end(claim, outcome)
    log(old, job_id, 1)
    assert drop(old, day) == 1
    days = 28 if outcome == "fail" else 7
    pass_days(old, days - 0.001)
    assert old.answer("prune") == 0
    assert old.status(job_id).status == FINAL[outcome]
    pass_days(old, 0.001)
    assert old.answer("prune") == 1
    for table in ("job_all", "outcome_all", "log_all"):
        assert old.value(f"select count(*) from hudhud.{table}") == 0  # noqa: S608


@pytest.mark.parametrize("outcome", FINAL)
def test_a_job_in_each_final_state_goes_with_its_day_after_its_retention(
    old: Verbs, outcome: str
) -> None:
    """A55."""
    day = day_of(old)
    old.enqueue()
    old.run(outcome)
    pass_days(old, 29)
    assert drop(old, day) == 0
    assert old.value("select count(*) from hudhud.job_all") == 0


def test_the_list_of_final_states_is_one_constant(db: Verbs) -> None:
    """A55: the database's is retention(); what it names is what the domain calls final."""
    known = db.value(
        "select regexp_match(pg_get_constraintdef(oid), 'ARRAY\\[(.*)\\]') from pg_constraint"
        " where conrelid = 'hudhud.outcome'::regclass and contype = 'c'"
    )
    outcomes = [word.split("'")[1] for word in known[0].split(",")]
    final = [one for one in outcomes if db.answer("retention", outcome=one) is not None]
    assert sorted(final) == sorted(FINAL)


def test_a_dead_job_from_an_old_day_is_kept_by_its_own_retention_setting(old: Verbs) -> None:
    old.connection.execute("update hudhud.setting set keep_dead = '90 days'")
    day = day_of(old)
    job_id = dead_within_retention(old)
    pass_days(old, 60)
    assert drop(old, day) == 1
    assert old.status(job_id).last_error_code == "boom"


def test_keeping_can_be_repeated(old: Verbs) -> None:
    day = day_of(old)
    job_id = retried(old)
    before = everything(old, job_id)
    pass_days(old, AGE_DAYS)
    old.call("close_day", day=day)
    for _ in range(3):
        assert old.answer("keep_survivors", day=day) == 1
    assert everything(old, job_id) == before
    assert drop(old, day) == 1
    assert everything(old, job_id) == before


def test_what_happens_between_closing_and_keeping_is_kept(old: Verbs) -> None:
    day = day_of(old)
    first = running(old)
    old.advance(1)
    second = ready(old)
    pass_days(old, AGE_DAYS)
    old.call("close_day", day=day)
    lease = old.row("select id as lease_id from hudhud.lease")
    old.finish(lease, ends=[end(lease, "retry", code="late")])
    log(old, first, 1)
    old.call("reschedule", job_id=second, available_at=None, actor="ann")
    assert old.answer("keep_survivors", day=day) == 2
    drop(old, day)
    assert old.status(first).last_error_code == "late"
    claim = old.claim(10)
    assert claim.job_ids == [first, second]
    assert claim.runs == [2, 1]


def test_a_job_that_ends_between_keeping_and_the_drop_is_not_lost(old: Verbs) -> None:
    day = day_of(old)
    job_id = running(old)
    pass_days(old, AGE_DAYS)
    old.call("close_day", day=day)
    old.answer("keep_survivors", day=day)
    lease = old.row("select id as lease_id from hudhud.lease")
    old.finish(lease)
    drop(old, day)
    assert old.status(job_id).status == "succeeded"


def test_the_oldest_day_is_dropped_when_no_retention_needs_its_partitions(old: Verbs) -> None:
    day = day_of(old)
    assert old.answer("day_to_drop") is None
    pass_days(old, 7.4)
    assert old.answer("day_to_drop") is None
    pass_days(old, 0.1)
    assert old.answer("day_to_drop") == day
    old.connection.execute("update hudhud.setting set keep_cancelled = '8 days'")
    assert old.answer("day_to_drop") is None
    pass_days(old, 1)
    assert old.answer("day_to_drop") == day
    drop(old, day)
    assert old.answer("day_to_drop") is None


def test_foreign_ids_are_in_no_partition(sessions: Sessions) -> None:
    """An id that the server did not make is refused where jobs are written, and found nowhere."""
    db = sessions.open()
    for foreign in (
        "00000000-0000-4000-8000-000000000000",
        "ffffffff-ffff-7fff-bfff-ffffffffff00",
    ):
        with db.refused("23514", "no partition"):
            db.connection.execute(
                "insert into hudhud.job (id, shard, version, lane, max_attempts, created_at,"
                " tenant_id, type, queue, payload)"
                " values (%s, 0, 1, 2, 1, now(), 't', 't', 'q', '{}')",
                [foreign],
            )
        with db.refused("HH006"):
            db.call("cancel", job_id=foreign, actor="ann")
        assert db.rows("select * from hudhud.job_status where id = %s", foreign) == []
