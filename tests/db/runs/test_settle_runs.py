"""What becomes of a job by each end of its run."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from tests.support.verbs import end

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.verbs import Row, Verbs


def due(db: Verbs, job_id: UUID) -> timedelta:
    """Return how far a scheduled job's time is ahead of the database's clock."""
    ahead = db.value(
        "select available_at - hudhud.clock() from hudhud.scheduled where job_id = %s", job_id
    )
    assert isinstance(ahead, timedelta)
    return ahead


def the_place(db: Verbs, job_id: UUID) -> Row:
    table = db.place(job_id)
    return db.row(f"select * from hudhud.{table} where job_id = %s", job_id)  # noqa: S608


@pytest.mark.parametrize(
    ("outcome", "status"), [("succeed", "succeeded"), ("fail", "dead"), ("cancel", "cancelled")]
)
def test_a_final_end_leaves_the_job_in_no_place(clocked: Verbs, outcome: str, status: str) -> None:
    job_id = clocked.enqueue()
    claim = clocked.claim_one()
    clocked.advance(2)
    clocked.end(claim, outcome, code="why")
    told = clocked.status(job_id)
    assert (told.status, told.last_error_code, told.attempts) == (status, "why", 1)
    assert told.finished_at == clocked.value("select hudhud.clock()")
    assert (told.waiting_for, told.locked_by, told.locked_until) == (None, None, None)
    assert clocked.place(job_id) is None


def test_everything_that_is_told_about_an_end_is_kept(db: Verbs) -> None:
    job_id = db.enqueue()
    particulars = {
        "code": "no_money",
        "class": "permanent",
        "error": "BankError: «کافی نیست»",
        "fingerprint": "f00",
    }
    db.run("fail", **particulars)
    (run,) = db.outcomes(job_id)
    kept = (run.code, run.error_class, run.error, run.fingerprint, run.result)
    assert kept == (*particulars.values(), None)


@pytest.mark.parametrize("result", [{"a": 1}, [1], "text", 12345678901234567890, False], ids=str)
def test_a_result_is_kept(db: Verbs, result: object) -> None:
    job_id = db.enqueue()
    claim = db.claim_one()
    ends = Jsonb([end(claim, "succeed", result=result)])
    db.call("finish", leases=[claim.lease_id], closes=[True], settlements=ends)
    assert db.outcomes(job_id)[0].result == result


def test_a_retry_counts_the_attempt_and_waits(clocked: Verbs) -> None:
    job_id = clocked.enqueue()
    clocked.run("retry", code="boom", delay_seconds=1.5)
    told = clocked.status(job_id)
    assert (told.status, told.waiting_for, told.last_error_code) == ("retryable", "time", "boom")
    assert (told.attempts, told.finished_at) == (1, None)
    assert due(clocked, job_id) == timedelta(seconds=1.5)
    clocked.advance(1.5)
    assert clocked.answer("stage") == 1
    claim = clocked.claim_one()
    assert (claim.runs, claim.attempts) == ([2], [2])


@pytest.mark.parametrize("outcome", ["snooze", "hand_back"])
def test_an_end_that_is_no_failure_does_not_count(clocked: Verbs, outcome: str) -> None:
    """A09, A12."""
    job_id = clocked.enqueue()
    for run in range(1, 6):
        claim = clocked.claim_one()
        assert (claim.runs, claim.attempts) == ([run], [1])
        clocked.end(claim, outcome, delay_seconds=2)
        told = clocked.status(job_id)
        assert (told.status, told.waiting_for, told.attempts) == ("pending", "time", 0)
        assert due(clocked, job_id) == timedelta(seconds=2)
        clocked.advance(2)
        clocked.answer("stage")
    assert [run.outcome for run in clocked.outcomes(job_id)] == [outcome] * 5


@pytest.mark.parametrize("outcome", ["retry", "snooze", "hand_back"])
@pytest.mark.parametrize("delay", [None, 0, -5], ids=str)
def test_an_end_without_a_delay_readies_the_job_at_once(
    db: Verbs, outcome: str, delay: float | None
) -> None:
    job_id = db.enqueue()
    db.run(outcome, delay_seconds=delay)
    place = the_place(db, job_id)
    assert (place.line, place.run) == (1, 2)


@pytest.mark.parametrize("outcome", ["retry", "snooze", "hand_back"])
@pytest.mark.parametrize("delay", [1e12, 1e300])
def test_a_delay_beyond_all_bounds_cannot_fail(clocked: Verbs, outcome: str, delay: float) -> None:
    """A10: the write that records a failure must not fail."""
    job_id = clocked.enqueue()
    clocked.run(outcome, delay_seconds=delay)
    assert timedelta(days=366) <= due(clocked, job_id) <= timedelta(days=36_600)
    clocked.status(job_id)


def test_the_last_attempt_ends_the_job(db: Verbs) -> None:
    job_id = db.enqueue(max_attempts=2)
    db.run("retry", code="boom")
    db.run("retry", code="boom")
    told = db.status(job_id)
    assert (told.status, told.last_error_code, told.attempts) == ("dead", "boom", 2)
    assert [run.outcome for run in db.outcomes(job_id)] == ["retry", "fail"]


def test_attempts_of_a_class_end_the_job(db: Verbs) -> None:
    job_id = db.enqueue()
    for error_class in ("slow", "net", "slow", "net"):
        db.run("retry", **{"class": error_class}, class_attempts_max=3)
        assert db.status(job_id).status == "retryable"
    db.run("retry", **{"class": "other"}, class_attempts_max=1)
    assert db.status(job_id).status == "dead"


def test_attempts_of_other_classes_do_not_count(db: Verbs) -> None:
    job_id = db.enqueue()
    for _ in range(3):
        db.run("retry", **{"class": "slow"}, class_attempts_max=4)
    db.run("retry", **{"class": "net"}, class_attempts_max=2)
    assert db.status(job_id).status == "retryable"
    db.run("retry", **{"class": "slow"}, class_attempts_max=4)
    assert db.status(job_id).status == "dead"


@pytest.mark.parametrize(("age", "status"), [(59, "retryable"), (60, "dead")])
def test_age_ends_the_job_counted_from_its_creation(
    clocked: Verbs, age: float, status: str
) -> None:
    job_id = clocked.enqueue()
    claim = clocked.claim_one(lease_seconds=3600)
    clocked.advance(age)
    clocked.end(claim, "retry", age_seconds_max=60)
    assert clocked.status(job_id).status == status


@pytest.mark.parametrize("outcome", ["snooze", "hand_back"])
def test_neither_attempts_nor_age_end_a_job_that_did_not_fail(clocked: Verbs, outcome: str) -> None:
    job_id = clocked.enqueue(max_attempts=1)
    claim = clocked.claim_one()
    clocked.advance(60)
    clocked.end(claim, outcome, age_seconds_max=60, class_attempts_max=1)
    assert clocked.status(job_id).status == "pending"


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("retry", "cancelled"),
        ("snooze", "cancelled"),
        ("hand_back", "cancelled"),
        ("cancel", "cancelled"),
        ("succeed", "succeeded"),
        ("fail", "dead"),
    ],
)
def test_a_request_to_cancel_holds_unless_the_run_is_the_last_anyway(
    db: Verbs, outcome: str, status: str
) -> None:
    job_id = db.enqueue()
    claim = db.claim_one()
    assert db.answer("cancel", job_id=job_id, actor="ann") == "requested"
    db.end(claim, outcome)
    assert db.status(job_id).status == status
    assert db.place(job_id) is None


def test_a_job_that_no_worker_can_run_is_held_and_not_scanned(db: Verbs) -> None:
    job_id = db.enqueue("mail", version=3)
    db.run("hand_back", code="no_handler")
    told = db.status(job_id)
    assert (told.status, told.waiting_for, told.attempts) == ("pending", "hold", 0)
    assert the_place(db, job_id).contract == "mail:3"
    assert db.claim() is None


def test_a_plain_hand_back_is_not_held(db: Verbs) -> None:
    job_id = db.enqueue()
    db.run("hand_back", code="stopping")
    assert db.place(job_id) == "ready"


def test_crashes_are_kept_over_later_runs(clocked: Verbs) -> None:
    clocked.enqueue()
    clocked.claim_one()
    clocked.advance(31)
    clocked.answer("rescue")
    for outcome in ("retry", "snooze", "hand_back"):
        claim = clocked.claim_one()
        assert claim.crashes == [1]
        clocked.end(claim, outcome)


def test_a_job_snoozed_40000_times_has_its_whole_budget_left(clocked: Verbs) -> None:
    """A12."""
    job_id = clocked.enqueue(max_attempts=2)
    clocked.run("snooze")
    clocked.connection.execute(_SNOOZES, [job_id, job_id])
    for _ in range(20):
        clocked.run("snooze")
    claim = clocked.claim_one()
    assert (claim.runs, claim.attempts, claim.max_attempts) == ([40_022], [1], [2])
    clocked.end(claim, "retry", code="first", delay_seconds=1)
    told = clocked.status(job_id)
    assert (told.status, told.attempts, told.max_attempts) == ("retryable", 1, 2)
    assert len(clocked.outcomes(job_id)) == 40_022


# 40,000 more runs as a snooze leaves them: an outcome each, and the next run's number.
_SNOOZES = """
with more as (
    insert into hudhud.outcome (
        job_id, run, shard, attempt, worker_id, claimed_at, finished_at, outcome, code)
    select o.job_id, o.run + n, o.shard, o.attempt, o.worker_id, o.claimed_at, o.finished_at,
           o.outcome, o.code
    from hudhud.outcome o, generate_series(1, 40000) n where o.job_id = %s
)
update hudhud.ready set run = run + 40000 where job_id = %s
"""


def run_numbers(runs: list[Any]) -> list[int]:
    return [run.run for run in runs]


def test_runs_are_numbered_without_a_gap_whatever_ends_them(clocked: Verbs) -> None:
    job_id = clocked.enqueue()
    for outcome in ("retry", "snooze", "hand_back", "lost", "retry", "succeed"):
        claim = clocked.claim_one()
        if outcome == "lost":
            clocked.advance(31)
            clocked.answer("rescue")
        else:
            clocked.end(claim, outcome)
    runs = clocked.outcomes(job_id)
    assert run_numbers(runs) == [1, 2, 3, 4, 5, 6]
    assert [run.attempt for run in runs] == [1, 2, 2, 2, 3, 4]


def suspects(db: Verbs) -> None:
    """Make two jobs whose worker was lost with them."""
    for _ in range(2):
        db.enqueue("mail")
    assert len(db.claim(2).job_ids) == 2
    db.advance(31)
    assert db.answer("rescue") == (2, 0)


@pytest.mark.parametrize("code", ["stopping", "no_handler"])
def test_a_suspect_that_is_handed_back_is_claimed_alone_again(clocked: Verbs, code: str) -> None:
    """A11: it has not shown yet that it does not kill its worker."""
    suspects(clocked)
    for delay in (0, 1, 1, 0, 1, 1):
        clocked.run("hand_back", code=code, delay_seconds=delay)
        clocked.advance(delay)
        clocked.answer("stage")
        clocked.call("announce", types=[{"type": "mail", "version": 1}])
    alone = [clocked.claim(10, worker_id=uuid4()) for _ in range(2)]
    assert [len(claim.job_ids) for claim in alone] == [1, 1]


@pytest.mark.parametrize("outcome", ["retry", "snooze"])
def test_a_suspect_whose_run_came_to_an_end_is_none_any_more(clocked: Verbs, outcome: str) -> None:
    suspects(clocked)
    clocked.run(outcome)
    clocked.run(outcome)
    assert len(clocked.claim(10).job_ids) == 2
