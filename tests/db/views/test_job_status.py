"""job_status: each job as its users know it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from hudhud.domain.job import Status
from hudhud.store.reads import Read
from tests.support.verbs import WORKER, end

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tests.support.verbs import Value, Verbs

# As DESIGN.md lists them, in its order.
COLUMNS = [
    "id",
    "type",
    "version",
    "tenant_id",
    "idempotency_key",
    "payload",
    "status",
    "waiting_for",
    "attempts",
    "max_attempts",
    "available_at",
    "locked_by",
    "locked_until",
    "last_error_code",
    "created_at",
    "finished_at",
    "correlation_id",
]


def test_it_has_exactly_the_columns_that_users_know(db: Verbs) -> None:
    assert (
        db.values(
            "select attname from pg_attribute where attrelid = 'hudhud.job_status'::regclass"
            " and attnum > 0 order by attnum"
        )
        == COLUMNS
    )


def test_the_read_for_users_answers_the_same_columns(db: Verbs) -> None:
    job_id = db.enqueue(payload={"n": 18446744073709551615})
    read = Read("job_status", {"id": job_id, "tenant_id": None})
    cursor = db.connection.execute(read.sql(lambda _, name: f"%({name})s").encode(), read.named)
    assert [column.name for column in cursor.description or ()] == COLUMNS


def ready(db: Verbs) -> UUID:
    return db.enqueue()


def scheduled(db: Verbs) -> UUID:
    return db.enqueue(delay=timedelta(hours=1))


def after(outcome: str, **particulars: Value) -> Callable[[Verbs], UUID]:
    def make(db: Verbs) -> UUID:
        db.enqueue()
        return db.run(outcome, **particulars)

    make.__name__ = " ".join([outcome, *map(str, particulars.values())])
    return make


def running(db: Verbs) -> UUID:
    job_id = db.enqueue()
    db.claim_one()
    return job_id


def running_again(db: Verbs) -> UUID:
    job_id = db.enqueue()
    db.run("retry", code="boom")
    db.claim_one()
    return job_id


def rescued(db: Verbs) -> UUID:
    job_id = db.enqueue()
    db.claim_one()
    db.advance(31)
    db.answer("rescue")
    return job_id


def cancelled_before_it_ran(db: Verbs) -> UUID:
    job_id = db.enqueue()
    db.answer("cancel", job_id=job_id, actor="ann")
    return job_id


def replaced(db: Verbs) -> UUID:
    job_id = db.enqueue(idempotency_key="k")
    db.enqueue(idempotency_key="k", on_conflict="replace")
    return job_id


CASES: list[tuple[Callable[[Verbs], UUID], tuple[object, ...]]] = [
    # status, waiting_for, attempts, last_error_code, is locked, has finished
    (ready, ("pending", None, 0, None, False, False)),
    (scheduled, ("pending", "time", 0, None, False, False)),
    (after("snooze", delay_seconds=5), ("pending", "time", 0, None, False, False)),
    (after("snooze"), ("pending", None, 0, None, False, False)),
    (after("hand_back", code="stop"), ("pending", None, 0, "stop", False, False)),
    (after("hand_back", code="no_handler"), ("pending", "hold", 0, "no_handler", False, False)),
    (running, ("running", None, 1, None, True, False)),
    (running_again, ("running", None, 2, "boom", True, False)),
    (after("retry", code="boom"), ("retryable", None, 1, "boom", False, False)),
    (after("retry", code="b", delay_seconds=5), ("retryable", "time", 1, "b", False, False)),
    (rescued, ("retryable", None, 1, "worker_lost", False, False)),
    (after("succeed"), ("succeeded", None, 1, None, False, True)),
    (after("fail", code="boom"), ("dead", None, 1, "boom", False, True)),
    (after("cancel"), ("cancelled", None, 1, None, False, True)),
    (cancelled_before_it_ran, ("cancelled", None, 0, None, False, True)),
    (replaced, ("cancelled", None, 0, "replaced", False, True)),
]


@pytest.mark.parametrize(("make", "expected"), CASES, ids=[make.__name__ for make, _ in CASES])
def test_a_job_is_shown_as_what_it_is(
    clocked: Verbs, make: Callable[[Verbs], UUID], expected: tuple[object, ...]
) -> None:
    told = clocked.status(make(clocked))
    assert (told.locked_by is None) == (told.locked_until is None)
    assert (
        told.status,
        told.waiting_for,
        told.attempts,
        told.last_error_code,
        told.locked_by == WORKER,
        told.finished_at is not None,
    ) == expected


def test_every_status_of_the_domain_is_shown_by_some_job() -> None:
    assert {expected[0] for _, expected in CASES} == {status.value for status in Status}


def test_what_was_asked_is_shown_as_it_was_asked(clocked: Verbs) -> None:
    job_id = clocked.enqueue(
        "mail",
        {"a": [1, None]},
        version=3,
        tenant_id="acme",
        idempotency_key="k",
        correlation_id="c",
        max_attempts=7,
    )
    told = clocked.status(job_id)
    assert (told.id, told.type, told.version, told.tenant_id) == (job_id, "mail", 3, "acme")
    assert (told.payload, told.idempotency_key) == ({"a": [1, None]}, "k")
    assert (told.correlation_id, told.max_attempts) == ("c", 7)
    assert told.created_at == told.available_at == clocked.value("select hudhud.clock()")


def test_outcomes_of_earlier_runs_do_not_end_a_job(clocked: Verbs) -> None:
    job_id = clocked.enqueue()
    for outcome in ("retry", "snooze", "hand_back"):
        clocked.run(outcome, code=outcome)
        told = clocked.status(job_id)
        assert (told.last_error_code, told.finished_at) == (outcome, None)
    clocked.claim_one()
    assert clocked.status(job_id).status == "running"


def test_a_job_in_a_new_lease_is_locked_by_that_and_not_by_an_old_one(clocked: Verbs) -> None:
    for _ in range(2):
        clocked.enqueue()
    old = clocked.claim(2)
    clocked.finish(old, closes=False, ends=[end(old, "retry", 1)])
    claim = clocked.claim_one(worker_id="00000000-0000-0000-0000-000000000008", lease_seconds=77)
    told = clocked.status(claim.job_ids[0])
    assert told.locked_by.int == 8
    assert told.locked_until == clocked.value("select hudhud.clock()") + timedelta(seconds=77)
    assert told.attempts == 2


def test_a_lease_that_ran_out_but_was_not_rescued_still_shows_as_running(clocked: Verbs) -> None:
    job_id = running(clocked)
    clocked.advance(3_600)
    assert clocked.status(job_id).status == "running"


def test_large_integers_show_every_digit(db: Verbs) -> None:
    """A47."""
    raw = '{"n": 18446744073709551615, "id": 9007199254740993}'
    read = Read("job_status", {"id": db.enqueue(payload=raw), "tenant_id": None})
    cursor = db.connection.execute(read.sql(lambda _, name: f"%({name})s").encode(), read.named)
    (row,) = cursor.fetchall()
    assert row[COLUMNS.index("payload")] == raw
