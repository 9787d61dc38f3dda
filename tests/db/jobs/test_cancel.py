"""cancel: at once what waits, by request what runs, never what has ended."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.sessions import SECONDS
from tests.support.verbs import WORKER

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.sessions import Sessions
    from tests.support.verbs import Row, Value, Verbs


def cancel(db: Verbs, job_id: UUID, **options: Value) -> str:
    return str(db.answer("cancel", job_id=job_id, **({"actor": "ann"} | options)))


def requests(db: Verbs) -> Row:
    return db.answer("beat", worker_id=WORKER)


@pytest.mark.parametrize(
    "ending",
    [
        None,
        {"outcome": "retry"},
        {"outcome": "retry", "delay_seconds": 60},
        {"outcome": "snooze", "delay_seconds": 60},
        {"outcome": "hand_back"},
        {"outcome": "hand_back", "code": "no_handler"},
    ],
    ids=str,
)
def test_a_job_that_waits_is_cancelled_at_once_wherever_it_waits(
    db: Verbs, ending: dict[str, str] | None
) -> None:
    job_id = db.enqueue()
    if ending:
        db.run(**ending)
    assert cancel(db, job_id) == "cancelled"
    told = db.status(job_id)
    assert (told.status, told.last_error_code, told.waiting_for) == ("cancelled", None, None)
    assert told.finished_at is not None
    assert db.place(job_id) is None
    assert db.claim() is None
    assert db.outcomes(job_id)[-1].run == (2 if ending else 1)


def test_a_scheduled_job_is_cancelled_at_once(db: Verbs) -> None:
    job_id = db.enqueue(delay=timedelta(days=1))
    assert cancel(db, job_id) == "cancelled"
    assert db.place(job_id) is None


def test_a_cancelled_job_keeps_the_attempts_it_had(db: Verbs) -> None:
    job_id = db.enqueue()
    db.run("retry")
    db.run("retry")
    cancel(db, job_id)
    assert db.status(job_id).attempts == 2


def test_a_suspect_is_cancelled_at_once(clocked: Verbs) -> None:
    job_id = clocked.enqueue()
    clocked.claim_one()
    clocked.advance(31)
    clocked.answer("rescue")
    assert cancel(clocked, job_id) == "cancelled"
    assert clocked.claim() is None


def test_a_running_job_is_asked_to_stop(db: Verbs) -> None:
    job_id = db.enqueue()
    claim = db.claim_one()
    assert cancel(db, job_id) == "requested"
    assert db.status(job_id).status == "running"
    assert requests(db) == ([job_id], [1])
    assert db.end(claim, "cancel").settled == 1
    assert db.status(job_id).status == "cancelled"


def test_success_wins_over_a_request(db: Verbs) -> None:
    job_id = db.enqueue()
    claim = db.claim_one()
    cancel(db, job_id)
    db.finish(claim)
    assert db.status(job_id).status == "succeeded"


def test_a_request_can_be_repeated_and_names_the_run(db: Verbs) -> None:
    job_id = db.enqueue()
    db.run("snooze")
    db.claim_one()
    assert [cancel(db, job_id) for _ in range(3)] == ["requested"] * 3
    assert requests(db) == ([job_id], [2])


def test_a_rescue_honours_a_request(clocked: Verbs) -> None:
    job_id = clocked.enqueue()
    clocked.claim_one()
    cancel(clocked, job_id)
    clocked.advance(31)
    assert clocked.answer("rescue") == (0, 1)
    assert clocked.status(job_id).status == "cancelled"


def test_one_job_of_a_batch_is_cancelled_without_the_others(db: Verbs) -> None:
    db.call("enqueue_many", types=["mail"], payloads=[{}] * 3)
    claim = db.claim()
    cancel(db, claim.job_ids[1])
    assert requests(db) == ([claim.job_ids[1]], [1])


@pytest.mark.parametrize("outcome", ["succeed", "fail", "cancel"])
def test_a_job_that_has_ended_is_not_cancelled(db: Verbs, outcome: str) -> None:
    job_id = db.enqueue()
    db.run(outcome)
    with db.refused("HH007", str(job_id), "ended"):
        cancel(db, job_id)


def test_a_job_that_ended_in_a_lease_that_is_still_open_is_not_cancelled(db: Verbs) -> None:
    db.call("enqueue_many", types=["mail"], payloads=[{}] * 2)
    claim = db.claim()
    db.finish(claim, closes=False, parts=[(claim, 1)])
    with db.refused("HH007", "ended"):
        cancel(db, claim.job_ids[0])


def test_a_job_that_is_claimed_anew_is_asked_by_its_new_run(db: Verbs) -> None:
    """Its old lease is still open, for its neighbours."""
    db.call("enqueue_many", types=["mail"], payloads=[{}] * 2)
    old = db.claim()
    db.finish(old, closes=False, ends=[_retry(old)])
    new = db.claim_one(worker_id=uuid.UUID(int=8))
    assert cancel(db, new.job_ids[0]) == "requested"
    assert requests(db) == ([], [])
    told = db.answer("beat", worker_id=uuid.UUID(int=8))
    assert told == (new.job_ids, [2])


def _retry(claim: Row) -> dict[str, object]:
    return {"lease": str(claim.lease_id), "position": 1, "outcome": "retry"}


@pytest.mark.parametrize("options", [{}, {"tenant_id": "acme"}], ids=str)
def test_an_unknown_job_is_not_found(db: Verbs, options: dict[str, str]) -> None:
    with db.refused("HH006"):
        cancel(db, uuid.uuid4(), **options)
    with db.refused("HH006"):
        cancel(db, db.answer("new_id"), **options)


def test_another_tenants_job_looks_like_none(db: Verbs) -> None:
    """A87."""
    job_id = db.enqueue(tenant_id="acme")
    with db.refused("HH006") as _:
        cancel(db, job_id, tenant_id="other")
    assert db.place(job_id) == "ready"
    assert cancel(db, job_id, tenant_id="acme") == "cancelled"


def test_the_act_is_audited_with_its_reason(clocked: Verbs) -> None:
    job_id = clocked.enqueue(tenant_id="acme")
    cancel(clocked, job_id, reason="typo")
    line = clocked.row("select * from hudhud.audit")
    assert (line.actor, line.action, line.tenant_id) == ("ann", "job.cancel", "acme")
    assert (line.subject, line.reason) == (str(job_id), "typo")
    assert line.detail == {"answer": "cancelled"}
    assert line.at == clocked.value("select hudhud.clock()")


@pytest.mark.parametrize("actor", [None, ""])
def test_nobody_cancels_anonymously(db: Verbs, actor: str | None) -> None:
    job_id = db.enqueue()
    with db.refused("HH001", "actor"):
        cancel(db, job_id, actor=actor)
    assert db.place(job_id) == "ready"
    db.claim_one()
    with db.refused("HH001", "actor"):
        cancel(db, job_id, actor=actor)


def test_the_requests_of_ended_runs_are_told_no_more(db: Verbs) -> None:
    job_id = db.enqueue()
    claim = db.claim_one()
    cancel(db, job_id)
    db.finish(claim)
    assert requests(db) == ([], [])


@pytest.mark.parametrize("is_claimed", [True, False])
def test_a_cancel_waits_for_a_claim_and_asks_only_if_that_commits(
    sessions: Sessions, *, is_claimed: bool
) -> None:
    worker, operator = sessions.open(), sessions.open()
    job_id = worker.enqueue()
    with operator.connection.transaction():
        with worker.connection.transaction(force_rollback=not is_claimed):
            worker.claim_one()
            waiting = sessions.start_blocked(
                lambda: cancel(operator, job_id), waits=operator, for_=worker
            )
        assert waiting.result(SECONDS) == ("requested" if is_claimed else "cancelled")


@pytest.mark.parametrize("outcome", ["retry", "snooze", "hand_back"])
def test_a_cancel_during_a_finish_ends_the_job_that_would_have_gone_on(
    sessions: Sessions, outcome: str
) -> None:
    worker, operator = sessions.open(), sessions.open()
    job_id = worker.enqueue()
    claim = worker.claim_one()
    with operator.connection.transaction():
        with worker.connection.transaction():
            assert worker.end(claim, outcome, delay_seconds=60).settled == 1
            waiting = sessions.start_blocked(
                lambda: cancel(operator, job_id), waits=operator, for_=worker
            )
        assert waiting.result(SECONDS) == "cancelled"
    assert worker.status(job_id).status == "cancelled"
    assert worker.place(job_id) is None


def test_a_cancel_during_a_part_of_a_finish_ends_the_job_that_would_have_gone_on(
    sessions: Sessions,
) -> None:
    worker, operator = sessions.open(), sessions.open()
    worker.call("enqueue_many", types=["mail"], payloads=[{}] * 2)
    claim = worker.claim()
    with operator.connection.transaction():
        with worker.connection.transaction():
            worker.finish(claim, closes=False, ends=[_retry(claim)])
            waiting = sessions.start_blocked(
                lambda: cancel(operator, claim.job_ids[0]), waits=operator, for_=worker
            )
        assert waiting.result(SECONDS) == "cancelled"
    assert worker.status(claim.job_ids[0]).status == "cancelled"


def test_a_cancel_during_a_success_is_refused(sessions: Sessions) -> None:
    worker, operator = sessions.open(), sessions.open()
    job_id = worker.enqueue()
    claim = worker.claim_one()
    with operator.connection.transaction():
        with worker.connection.transaction():
            worker.finish(claim)
            waiting = sessions.start_blocked(
                lambda: _refused(operator, job_id), waits=operator, for_=worker
            )
        assert waiting.result(SECONDS)


def _refused(db: Verbs, job_id: UUID) -> bool:
    with db.refused("HH007", "ended"):
        cancel(db, job_id)
    return True


def test_a_cancel_during_a_rescue_ends_the_job(sessions: Sessions) -> None:
    worker, operator = sessions.open(), sessions.open()
    worker.take_clock()
    job_id = worker.enqueue()
    worker.claim_one()
    worker.advance(31)
    with operator.connection.transaction():
        with worker.connection.transaction():
            assert worker.answer("rescue") == (1, 0)
            waiting = sessions.start_blocked(
                lambda: cancel(operator, job_id), waits=operator, for_=worker
            )
        assert waiting.result(SECONDS) == "cancelled"
    assert worker.status(job_id).status == "cancelled"


def test_a_finish_waits_for_a_cancel_and_honours_it(sessions: Sessions) -> None:
    worker, operator = sessions.open(), sessions.open()
    job_id = worker.enqueue()
    claim = worker.claim_one()
    with worker.connection.transaction():
        with operator.connection.transaction():
            assert cancel(operator, job_id) == "requested"
            waiting = sessions.start_blocked(
                lambda: worker.end(claim, "retry"), waits=worker, for_=operator
            )
        assert waiting.result(SECONDS).settled == 1
    assert worker.status(job_id).status == "cancelled"


def test_a_cancel_waits_for_no_handlers_transaction(sessions: Sessions) -> None:
    worker, handler, operator = sessions.open(), sessions.open(), sessions.open()
    worker.call("enqueue_many", types=["mail"], payloads=[{}] * 2)
    claim = worker.claim()
    operator.is_impatient = True
    with handler.connection.transaction():
        handler.answer("settle", lease_id=claim.lease_id, place=1)
        assert [cancel(operator, job_id) for job_id in claim.job_ids] == ["requested"] * 2
    assert worker.status(claim.job_ids[0]).status == "succeeded"


def test_a_renewal_does_not_wait_for_a_cancel(sessions: Sessions) -> None:
    worker, operator = sessions.open(), sessions.open()
    job_id = worker.enqueue()
    claim = worker.claim_one()
    worker.is_impatient = True
    with operator.connection.transaction():
        cancel(operator, job_id)
        renewed = worker.answer(
            "renew", worker_id=WORKER, leases=[claim.lease_id], lease_seconds=60
        )
    assert renewed == [claim.lease_id]
