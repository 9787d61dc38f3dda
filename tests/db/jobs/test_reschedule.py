"""reschedule: another time for a job that waits."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.sessions import SECONDS

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.sessions import Sessions
    from tests.support.verbs import Value, Verbs

SOON = datetime(2090, 1, 2, 3, 4, 5, tzinfo=UTC)


def reschedule(db: Verbs, job_id: UUID, at: Value = None, **options: Value) -> None:
    db.call("reschedule", job_id=job_id, available_at=at, **({"actor": "ann"} | options))


ENDINGS = pytest.mark.parametrize(
    "ending",
    [
        None,
        {"outcome": "retry", "delay_seconds": 60},
        {"outcome": "snooze", "delay_seconds": 60},
        {"outcome": "hand_back"},
        {"outcome": "hand_back", "code": "no_handler"},
    ],
    ids=str,
)


@ENDINGS
def test_a_waiting_job_gets_another_time(db: Verbs, ending: dict[str, str] | None) -> None:
    job_id = db.enqueue(delay=None if ending else timedelta(hours=1))
    if ending:
        db.run(**ending)
    before = db.status(job_id)
    reschedule(db, job_id, SOON)
    told = db.status(job_id)
    assert (told.available_at, told.waiting_for) == (SOON, "time")
    assert (told.status, told.attempts) == (before.status, before.attempts)


@ENDINGS
def test_a_waiting_job_runs_now(db: Verbs, ending: dict[str, str] | None) -> None:
    job_id = db.enqueue(delay=None if ending else timedelta(hours=1))
    if ending:
        db.run(**ending)
    attempts = db.status(job_id).attempts
    reschedule(db, job_id)
    claim = db.claim_one()
    assert claim.job_ids == [job_id]
    assert claim.attempts == [attempts + 1]
    assert claim.runs == [2 if ending else 1]


def test_a_ready_job_can_be_put_off(db: Verbs) -> None:
    job_id = db.enqueue()
    reschedule(db, job_id, SOON)
    assert db.claim() is None


def test_a_time_that_has_come_is_now(db: Verbs) -> None:
    job_id = db.enqueue(delay=timedelta(hours=1))
    reschedule(db, job_id, datetime(2020, 1, 1, tzinfo=UTC))
    assert db.place(job_id) == "ready"


def test_a_suspect_that_is_rescheduled_stays_one(clocked: Verbs) -> None:
    """A11: whoever may have killed its worker is claimed alone, also when an operator moved it."""
    clocked.call("enqueue_many", types=["mail"], payloads=[{}] * 2)
    suspect = clocked.claim().job_ids[0]
    clocked.advance(31)
    clocked.answer("rescue")
    reschedule(clocked, suspect, clocked.value("select hudhud.clock() + interval '5 s'"))
    assert len(clocked.claim().job_ids) == 1
    clocked.enqueue()
    clocked.advance(5)
    clocked.answer("stage")
    assert clocked.claim(worker_id=uuid.uuid4()).job_ids == [suspect]


@pytest.mark.parametrize("outcome", [None, "succeed", "fail", "cancel"])
def test_a_job_that_runs_or_has_ended_keeps_its_time(db: Verbs, outcome: str | None) -> None:
    job_id = db.enqueue()
    claim = db.claim_one()
    if outcome:
        db.end(claim, outcome)
    with db.refused("HH007", str(job_id)):
        reschedule(db, job_id, SOON)


@pytest.mark.parametrize("at", ["infinity", "-infinity", "10000-01-01"])
def test_a_time_that_nobody_could_read_is_refused(db: Verbs, at: str) -> None:
    job_id = db.enqueue()
    with db.refused("HH001", "available_at"):
        reschedule(db, job_id, at)
    assert db.place(job_id) == "ready"


def test_a_job_is_not_moved_to_where_it_will_have_expired(db: Verbs) -> None:
    job_id = db.enqueue(expires_at=SOON)
    for at in (SOON, SOON + timedelta(days=1)):
        with db.refused("HH001", "available_at", "expires"):
            reschedule(db, job_id, at)
    assert db.place(job_id) == "ready"
    reschedule(db, job_id, SOON - timedelta(seconds=1))
    assert db.status(job_id).available_at == SOON - timedelta(seconds=1)
    reschedule(db, job_id)


def test_another_tenants_job_looks_like_none(db: Verbs) -> None:
    """A87."""
    job_id = db.enqueue(tenant_id="acme")
    for unknown, tenant in ((job_id, "other"), (uuid.uuid4(), None)):
        with db.refused("HH006"):
            reschedule(db, unknown, SOON, tenant_id=tenant)
    reschedule(db, job_id, SOON, tenant_id="acme")


def test_the_act_is_audited(db: Verbs) -> None:
    job_id = db.enqueue(tenant_id="acme")
    reschedule(db, job_id, SOON, reason="later")
    line = db.row("select * from hudhud.audit")
    assert (line.actor, line.action, line.tenant_id) == ("ann", "job.reschedule", "acme")
    assert (line.subject, line.reason) == (str(job_id), "later")
    assert datetime.fromisoformat(line.detail["available_at"]) == SOON


def test_nobody_reschedules_anonymously(db: Verbs) -> None:
    job_id = db.enqueue()
    with db.refused("HH001", "actor"):
        reschedule(db, job_id, SOON, actor="")


def test_a_reschedule_waits_for_a_claim_and_is_refused_when_that_commits(
    sessions: Sessions,
) -> None:
    worker, operator = sessions.open(), sessions.open()
    job_id = worker.enqueue()

    def refused() -> bool:
        with operator.refused("HH007"):
            reschedule(operator, job_id, SOON)
        return True

    with operator.connection.transaction():
        with worker.connection.transaction():
            worker.claim_one()
            waiting = sessions.start_blocked(refused, waits=operator, for_=worker)
        assert waiting.result(SECONDS)
    assert worker.status(job_id).status == "running"


def test_a_job_that_moves_while_it_is_rescheduled_is_still_found(sessions: Sessions) -> None:
    stager, operator = sessions.open(), sessions.open()
    stager.take_clock()
    job_id = stager.enqueue(delay=timedelta(seconds=1))
    stager.advance(1)
    with operator.connection.transaction():
        with stager.connection.transaction():
            assert stager.answer("stage") == 1
            waiting = sessions.start_blocked(
                lambda: reschedule(operator, job_id, SOON), waits=operator, for_=stager
            )
        waiting.result(SECONDS)
    assert stager.status(job_id).available_at == SOON
