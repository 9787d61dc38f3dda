"""replay and resubmit: a dead job runs again as a new one, once, with everything it had."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from psycopg.types.json import Jsonb

from tests.support.sessions import SECONDS

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.sessions import Sessions
    from tests.support.verbs import Value, Verbs

OPTIONS = {
    "version": 3,
    "tenant_id": "acme",
    "queue": "post",
    "lane": "high",
    "idempotency_key": "k1",
    "expires_at": datetime(2090, 1, 2, tzinfo=UTC),
    "max_attempts": 7,
    "correlation_id": "corr",
    "traceparent": "00-trace",
    "tags": ["a", "b"],
}
KEPT = (
    "shard, version, lane, max_attempts, expires_at, tenant_id, type, queue, idempotency_key,"
    " correlation_id, traceparent, tags"
)


def replay(db: Verbs, job_id: UUID, **options: Value) -> UUID:
    given = {"actor": "ann", "reason": "fixed the bank"} | options
    return db.answer("replay", job_id=job_id, **given)  # type: ignore[no-any-return]


def resubmit(db: Verbs, job_id: UUID, payload: Value = None, **options: Value) -> UUID:
    given = {"actor": "ann", "reason": "typo"} | options
    return db.answer("resubmit", job_id=job_id, payload=payload or {}, **given)  # type: ignore[no-any-return]


ACTS = pytest.mark.parametrize("again", [replay, resubmit])


def dead(db: Verbs, payload: Value = None, **options: Value) -> UUID:
    job_id = db.enqueue("mail", payload, **options)
    claim = db.claim_one(queue=options.get("queue", "default"))
    assert claim.job_ids == [job_id]
    db.end(claim, "fail", code="boom")
    return job_id


def test_a_replay_has_every_option_and_the_payload_of_the_dead_job(db: Verbs) -> None:
    """A53."""
    old = dead(db, {"n": 18446744073709551615}, **OPTIONS)
    new = replay(db, old)
    read = f"select {KEPT}, payload::text from hudhud.job where id = %s"  # noqa: S608
    assert db.row(read, new) == db.row(read, old)
    status = db.status(new)
    assert (status.status, status.attempts) == ("pending", 0)


def test_a_replay_that_fails_again_is_dead_again_and_can_be_replayed_again(db: Verbs) -> None:
    """A53."""
    first = dead(db, **OPTIONS)
    second = replay(db, first)
    claim = db.claim_one(queue="post")
    assert (claim.job_ids, claim.runs, claim.attempts) == ([second], [1], [1])
    db.end(claim, "fail", code="boom")
    third = replay(db, second)
    links = "select root_id, replay_of, resubmit_of from hudhud.job where id = %s"
    assert db.row(links, first) == (None, None, None)
    assert db.row(links, second) == (first, first, None)
    assert db.row(links, third) == (first, second, None)
    assert [db.status(job_id).status for job_id in (first, second)] == ["dead", "dead"]


def test_a_resubmission_has_every_option_and_the_corrected_payload(db: Verbs) -> None:
    old = dead(db, {"n": "one"}, **OPTIONS)
    new = resubmit(db, old, {"n": 1})
    read = f"select {KEPT} from hudhud.job where id = %s"  # noqa: S608
    assert db.row(read, new) == db.row(read, old)
    assert db.status(new).payload == {"n": 1}
    assert db.status(old).payload == {"n": "one"}
    links = "select root_id, replay_of, resubmit_of from hudhud.job where id = %s"
    assert db.row(links, new) == (None, None, old)


@ACTS
def test_an_expiry_that_is_over_does_not_end_what_an_operator_wants_run(
    clocked: Verbs, again: Value
) -> None:
    now = clocked.value("select hudhud.clock()")
    late = dead(clocked, expires_at=now + timedelta(seconds=10))
    in_time = dead(clocked, expires_at=now + timedelta(seconds=100))
    clocked.advance(10)
    for job_id in (late, in_time):
        again(clocked, job_id)
    claim = clocked.claim()
    assert claim.expired is None
    expiries = clocked.values(
        "select expires_at from hudhud.job where id = any (%s)", claim.job_ids
    )
    assert set(expiries) == {None, now + timedelta(seconds=100)}


@ACTS
def test_a_dead_job_runs_again_once(db: Verbs, again: Value) -> None:
    old = dead(db)
    again(db, old)
    for act in (replay, resubmit):
        with db.refused("HH007", str(old), "already"):
            act(db, old)
    assert db.value("select count(*) from hudhud.job") == 2


@ACTS
@pytest.mark.parametrize("outcome", [None, "succeed", "cancel", "retry", "claimed"])
def test_only_a_dead_job_runs_again(db: Verbs, again: Value, outcome: str | None) -> None:
    job_id = db.enqueue()
    if outcome == "claimed":
        db.claim_one()
    elif outcome:
        db.run(outcome)
    with db.refused("HH007", str(job_id), "not dead"):
        again(db, job_id)


@ACTS
@pytest.mark.parametrize("reason", [None, "", "  "])
def test_a_reason_is_required(db: Verbs, again: Value, reason: str | None) -> None:
    old = dead(db)
    with db.refused("HH001", "reason"):
        again(db, old, reason=reason)


@ACTS
@pytest.mark.parametrize("actor", [None, ""])
def test_an_actor_is_required(db: Verbs, again: Value, actor: str | None) -> None:
    old = dead(db)
    with db.refused("HH001", "actor"):
        again(db, old, actor=actor)
    assert db.value("select count(*) from hudhud.job") == 1


@pytest.mark.parametrize(("again", "action"), [(replay, "job.replay"), (resubmit, "job.resubmit")])
def test_the_act_is_audited_with_its_reason_and_the_new_job(
    db: Verbs, again: Value, action: str
) -> None:
    old = dead(db, tenant_id="acme")
    new = again(db, old, reason="because", tenant_id="acme")
    line = db.row("select * from hudhud.audit")
    assert (line.actor, line.action, line.tenant_id) == ("ann", action, "acme")
    assert (line.subject, line.reason) == (str(old), "because")
    assert line.detail == {"new_job": str(new)}


@ACTS
def test_another_tenants_job_looks_like_none(db: Verbs, again: Value) -> None:
    """A87."""
    old = dead(db, tenant_id="acme")
    for unknown, tenant in ((old, "other"), (uuid.uuid4(), None)):
        with db.refused("HH006"):
            again(db, unknown, tenant_id=tenant)


@ACTS
def test_the_key_moves_to_the_new_job(db: Verbs, again: Value) -> None:
    """A53."""
    old = dead(db, idempotency_key="k")
    new = again(db, old)
    assert db.answer("enqueue", type="mail", payload={}, idempotency_key="k") == (new, True)
    db.run("retry")
    assert db.status(new).status == "retryable"


@ACTS
def test_a_key_that_another_job_has_taken_stays_there(clocked: Verbs, again: Value) -> None:
    old = dead(clocked, idempotency_key="k", unique_for=timedelta(seconds=5))
    clocked.advance(5)
    heir = clocked.enqueue(idempotency_key="k")
    again(clocked, old)
    assert clocked.value("select job_id from hudhud.idempotency") == heir


@pytest.mark.parametrize(
    ("payload", "state", "word"),
    [
        ({"n": "one"}, "HH001", "$.n"),
        ({}, "HH001", "$.n"),
        (Jsonb([]), "HH001", "object"),
        ({"n": 1, "a": "x" * 70_000}, "HH002", "bytes"),
    ],
    ids=["type", "missing", "array", "large"],
)
def test_a_corrected_payload_is_checked_as_at_enqueue(
    db: Verbs, *, payload: Value, state: str, word: str
) -> None:
    old = dead(db, {"n": 1})
    contract = {"type": "mail", "version": 1, "schema": {"required": {"n": "integer"}}}
    db.call("announce", types=[contract])
    with db.refused(state, word):
        db.call("resubmit", job_id=old, payload=payload, actor="ann", reason="typo")


def test_a_resubmission_needs_a_payload(db: Verbs) -> None:
    old = dead(db)
    with db.refused("HH001", "payload"):
        db.call("resubmit", job_id=old, payload=None, actor="ann", reason="typo")


@ACTS
def test_of_two_operators_at_once_the_second_finds_it_done(
    sessions: Sessions, again: Value
) -> None:
    first, second = sessions.open(), sessions.open()
    old = dead(first)

    def refused() -> bool:
        with second.refused("HH007", "already"):
            again(second, old)
        return True

    with second.connection.transaction():
        with first.connection.transaction():
            replay(first, old)
            waiting = sessions.start_blocked(refused, waits=second, for_=first)
        assert waiting.result(SECONDS)
    assert first.value("select count(*) from hudhud.job") == 2


def test_the_second_operator_acts_when_the_first_rolls_back(sessions: Sessions) -> None:
    first, second = sessions.open(), sessions.open()
    old = dead(first)
    with second.connection.transaction():
        with first.connection.transaction(force_rollback=True):
            replay(first, old)
            waiting = sessions.start_blocked(lambda: replay(second, old), waits=second, for_=first)
        new = waiting.result(SECONDS)
    assert first.values("select id from hudhud.job where id <> %s", old) == [new]
