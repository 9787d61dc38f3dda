"""Idempotency keys of one job: who has a key, and what becomes of the others."""

from __future__ import annotations

import itertools
import uuid
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
import pytest

from tests.support.sessions import SECONDS
from tests.support.verbs import end

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tests.support.sessions import Sessions
    from tests.support.verbs import Row, Value, Verbs


def keyed(db: Verbs, key: str = "k", /, **options: Value) -> Row:
    return db.answer("enqueue", type="mail", idempotency_key=key, **({"payload": {}} | options))


def amount(db: Verbs) -> int:
    return int(db.value("select count(*) from hudhud.job"))


def test_return_existing_answers_with_the_first_job(db: Verbs) -> None:
    first = keyed(db)
    second = keyed(db, payload={"other": 1}, lane="critical")
    assert (first.deduplicated, second.deduplicated) == (False, True)
    assert second.id == first.id
    assert amount(db) == 1


def test_reject_raises_and_names_the_holder(db: Verbs) -> None:
    first = keyed(db)
    with db.refused("HH003", "'k'", str(first.id)):
        keyed(db, on_conflict="reject")
    assert amount(db) == 1


def test_reject_takes_a_free_key(db: Verbs) -> None:
    assert keyed(db, on_conflict="reject").deduplicated is False


def test_replace_ends_the_old_job_and_moves_the_key(db: Verbs) -> None:
    old = keyed(db, payload={"n": 1})
    new = keyed(db, payload={"n": 2}, on_conflict="replace")
    assert new.deduplicated is False
    was = db.status(old.id)
    assert (was.status, was.last_error_code, was.payload) == ("cancelled", "replaced", {"n": 1})
    assert db.status(new.id).status == "pending"
    assert keyed(db).id == new.id
    assert db.place(old.id) is None


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        {"outcome": "retry", "delay_seconds": 60},
        {"outcome": "snooze", "delay_seconds": 60},
        {"outcome": "hand_back"},
        {"outcome": "hand_back", "code": "no_handler"},
    ],
    ids=str,
)
def test_replace_finds_the_old_job_wherever_it_waits(
    db: Verbs, outcome: dict[str, Any] | None
) -> None:
    old = keyed(db, delay=None if outcome else timedelta(hours=1))
    if outcome:
        db.run(**outcome)
    new = keyed(db, on_conflict="replace")
    assert db.status(old.id).status == "cancelled"
    assert keyed(db).id == new.id


@pytest.mark.parametrize("outcome", [None, "succeed", "fail", "cancel"])
def test_replace_refuses_a_job_that_was_claimed(db: Verbs, outcome: str | None) -> None:
    old = keyed(db)
    claim = db.claim_one()
    if outcome:
        db.end(claim, outcome)
    with db.refused("HH003", str(old.id), "cannot be replaced"):
        keyed(db, on_conflict="replace")
    assert amount(db) == 1


def test_replace_refuses_a_job_of_whose_effect_nobody_knows(db: Verbs) -> None:
    """Its own next run must ask what became of it; a new job would do it once more."""
    old = keyed(db)
    claim = db.claim_one()
    effect = {"tenant_id": "default", "key": "e", "name": "pay", "provider": "bank"}
    asked = {"reconcile": "queryable", "fingerprint": "f", "send_seconds": 1, "settle_seconds": 1}
    lease = {"lease_id": claim.lease_id, "place": 1, "root_id": old.id}
    intended = db.answer("intend", token=uuid.uuid4(), **lease, **effect, **asked)
    db.end(claim, "retry", delay_seconds=60)
    with db.refused("HH003", str(old.id), "cannot be replaced"):
        keyed(db, on_conflict="replace")
    assert (amount(db), db.place(old.id)) == (1, "scheduled")

    db.connection.execute(
        "update hudhud.effect set state = 'not_done' where id = %s", [intended.effect_id]
    )
    assert keyed(db, on_conflict="replace").id != old.id


@pytest.mark.parametrize("outcome", ["succeed", "fail", "cancel"])
def test_a_key_holds_although_its_job_has_ended(db: Verbs, outcome: str) -> None:
    old = keyed(db)
    db.run(outcome)
    assert keyed(db) == (old.id, True)


def test_a_key_that_no_index_row_holds_is_refused(db: Verbs) -> None:
    with db.refused("HH001", "2,600 bytes"):
        db.enqueue("\u8a9e" * 200, idempotency_key="\u8a9e" * 500, tenant_id="\u8a9e" * 200)
    db.enqueue("\u8a9e" * 200, idempotency_key="\u8a9e" * 466, tenant_id="\u8a9e" * 200)


def test_a_key_is_scoped_by_tenant_and_type(db: Verbs) -> None:
    ids = {keyed(db).id, keyed(db, tenant_id="acme").id}
    ids.add(db.answer("enqueue", type="sms", payload={}, idempotency_key="k").id)
    assert len(ids) == amount(db) == 3


def test_a_key_is_free_again_after_unique_for(clocked: Verbs) -> None:
    old = keyed(clocked, unique_for=timedelta(minutes=1))
    clocked.advance(59)
    assert keyed(clocked, unique_for=timedelta(minutes=1)) == (old.id, True)
    clocked.advance(1)
    new = keyed(clocked, unique_for=timedelta(minutes=1))
    assert new.deduplicated is False
    assert keyed(clocked).id == new.id
    assert clocked.status(old.id).status == "pending"


@pytest.mark.parametrize("policy", ["reject", "replace"])
def test_an_expired_key_hinders_no_policy_and_its_job_goes_on(clocked: Verbs, policy: str) -> None:
    old = keyed(clocked, unique_for=timedelta(minutes=1))
    clocked.advance(60)
    assert keyed(clocked, on_conflict=policy).deduplicated is False
    assert clocked.status(old.id).status == "pending"


PAYLOADS: list[dict[str, Any]] = [{"a": 1}, {}, {"a": 1, "b": None}, {"b": None, "a": 1}]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_a_payload_is_compared_whole_in_any_order(db: Verbs, order: tuple[int, ...]) -> None:
    """A15: key order is irrelevant, missing is not null."""
    for n in order:
        db.call("enqueue", type="mail", payload=PAYLOADS[n], unique_by=["payload"])
    assert amount(db) == 3
    db.call("enqueue_many", types=["mail"], payloads=PAYLOADS, unique_by=['"payload"'])
    assert amount(db) == 3


def test_fields_make_a_key_of_themselves_alone(db: Verbs) -> None:
    def enqueue(payload: dict[str, Any], fields: list[str]) -> UUID:
        row = db.answer("enqueue", type="mail", payload=payload, unique_by=fields)
        return row.id  # type: ignore[no-any-return]

    first = enqueue({"a": 1, "b": 2, "c": 3}, ["a", "b"])
    assert enqueue({"b": 2, "a": 1, "c": 4}, ["b", "a"]) == first
    assert enqueue({"a": 1, "b": None}, ["a", "b"]) != first
    assert amount(db) == 2


def test_a_field_that_the_payload_does_not_have_makes_no_key(db: Verbs) -> None:
    """A slip of the pen would make one key of all jobs of the type."""
    with db.refused("HH001", "unique_by names oder_id"):
        db.answer("enqueue", type="mail", payload={"order_id": 1}, unique_by=["oder_id"])
    assert amount(db) == 0


def test_a_key_taken_in_a_savepoint_goes_with_it(db: Verbs) -> None:
    with db.connection.transaction(force_rollback=True):
        keyed(db)
    assert keyed(db).deduplicated is False
    assert amount(db) == 1


Intake: TypeAlias = "Callable[[Verbs, str], tuple[UUID, bool]]"
POLICIES = pytest.mark.parametrize("policy", ["return_existing", "reject", "replace"])


def batch(db: Verbs, policy: str) -> tuple[UUID, bool]:
    rows = db.call(
        "enqueue_many",
        types=["mail"],
        payloads=[{}],
        idempotency_keys=["k"],
        on_conflicts=[policy],
    )
    (job_id,), (deduplicated,) = rows[0]
    return job_id, deduplicated


def single(db: Verbs, policy: str) -> tuple[UUID, bool]:
    job_id, deduplicated = keyed(db, on_conflict=policy)
    return job_id, deduplicated


INTAKES = pytest.mark.parametrize("intake", [single, batch])


@INTAKES
@POLICIES
def test_a_loser_waits_for_the_winner_and_takes_the_key_when_it_rolls_back(
    sessions: Sessions, intake: Intake, policy: str
) -> None:
    """A14."""
    first, second = sessions.open(), sessions.open()
    with second.connection.transaction():
        with first.connection.transaction(force_rollback=True):
            lost, _ = single(first, "return_existing")
            waiting = sessions.start_blocked(
                lambda: intake(second, policy), waits=second, for_=first
            )
        job_id, deduplicated = waiting.result(SECONDS)
    assert deduplicated is False
    assert first.values("select id from hudhud.job") == [job_id] != [lost]


@INTAKES
@POLICIES
def test_a_loser_waits_for_the_winner_and_sees_it_when_it_commits(
    sessions: Sessions, intake: Intake, policy: str
) -> None:
    """A14."""
    first, second = sessions.open(), sessions.open()
    with second.connection.transaction():
        with first.connection.transaction():
            won, _ = single(first, "return_existing")
            waiting = sessions.start_blocked(
                lambda: intake(second, policy), waits=second, for_=first
            )
        if policy == "reject":
            with pytest.raises(psycopg.Error, match=str(won)):
                waiting.result(SECONDS)
            return
        job_id, deduplicated = waiting.result(SECONDS)
    assert deduplicated is (policy == "return_existing")
    assert (job_id == won) is deduplicated
    assert first.status(won).status == ("pending" if deduplicated else "cancelled")
    assert first.status(job_id).status == "pending"


@INTAKES
@POLICIES
@pytest.mark.parametrize("level", ["REPEATABLE_READ", "SERIALIZABLE"])
def test_under_a_fixed_snapshot_a_lost_race_is_surfaced(
    sessions: Sessions, *, intake: Intake, policy: str, level: str
) -> None:
    """A14: a serialization error, which its caller repeats; never a silent loss."""
    first, second = sessions.open(), sessions.open()
    second.connection.isolation_level = psycopg.IsolationLevel[level]
    with second.connection.transaction(force_rollback=True):
        second.value("select count(*) from hudhud.job")
        with first.connection.transaction():
            won, _ = single(first, "return_existing")
            waiting = sessions.start_blocked(
                lambda: intake(second, policy), waits=second, for_=first
            )
        with pytest.raises(psycopg.errors.SerializationFailure):
            waiting.result(SECONDS)
    assert first.values("select id from hudhud.job") == [won]


@INTAKES
@POLICIES
def test_under_a_fixed_snapshot_a_key_is_free_when_the_winner_rolls_back(
    sessions: Sessions, intake: Intake, policy: str
) -> None:
    """A14."""
    first, second = sessions.open(), sessions.open()
    second.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with second.connection.transaction():
        second.value("select count(*) from hudhud.job")
        with first.connection.transaction(force_rollback=True):
            single(first, "return_existing")
            waiting = sessions.start_blocked(
                lambda: intake(second, policy), waits=second, for_=first
            )
        job_id, deduplicated = waiting.result(SECONDS)
    assert deduplicated is False
    assert first.values("select id from hudhud.job") == [job_id]


@INTAKES
def test_who_replaces_at_the_same_time_replaces_the_replacement(
    sessions: Sessions, intake: Intake
) -> None:
    first, second = sessions.open(), sessions.open()
    old, _ = single(first, "return_existing")
    with second.connection.transaction():
        with first.connection.transaction():
            middle, _ = single(first, "replace")
            waiting = sessions.start_blocked(
                lambda: intake(second, "replace"), waits=second, for_=first
            )
        last, deduplicated = waiting.result(SECONDS)
    assert deduplicated is False
    told = {job_id: first.status(job_id).status for job_id in (old, middle, last)}
    assert told == {old: "cancelled", middle: "cancelled", last: "pending"}
    assert first.value("select job_id from hudhud.idempotency") == last


def test_who_replaces_between_two_steps_of_another_replacement_waits_for_both(
    sessions: Sessions,
) -> None:
    first, second = sessions.open(), sessions.open()
    old, _ = single(first, "return_existing")
    middle = first.enqueue()
    with second.connection.transaction():
        with first.connection.transaction():
            first.call("end_unclaimed", id=old, code="replaced")
            waiting = sessions.start_blocked(
                lambda: single(second, "replace"), waits=second, for_=first
            )
            first.connection.execute("update hudhud.idempotency set job_id = %s", [middle])
        last, _ = waiting.result(SECONDS)
    told = {job_id: first.status(job_id).status for job_id in (old, middle, last)}
    assert told == {old: "cancelled", middle: "cancelled", last: "pending"}


@pytest.mark.parametrize("is_claimed", [True, False])
def test_replace_waits_for_a_claim_and_is_refused_only_when_that_commits(
    sessions: Sessions, *, is_claimed: bool
) -> None:
    first, second = sessions.open(), sessions.open()
    old, _ = single(first, "return_existing")
    first.ranges()
    with second.connection.transaction():
        with first.connection.transaction(force_rollback=not is_claimed):
            first.claim_one(lanes=[2], tenants=["default"])
            waiting = sessions.start_blocked(
                lambda: single(second, "replace"), waits=second, for_=first
            )
        if is_claimed:
            with pytest.raises(psycopg.Error, match="cannot be replaced"):
                waiting.result(SECONDS)
            return
        new, _ = waiting.result(SECONDS)
    assert first.status(old).status == "cancelled"
    assert first.status(new).status == "pending"


def test_an_expired_key_goes_to_one_of_two_at_the_same_time(sessions: Sessions) -> None:
    first, second = sessions.open(), sessions.open()
    keyed(first, unique_for=timedelta(0))
    with second.connection.transaction():
        with first.connection.transaction():
            won, _ = single(first, "return_existing")
            waiting = sessions.start_blocked(
                lambda: single(second, "return_existing"), waits=second, for_=first
            )
        assert waiting.result(SECONDS) == (won, True)


def test_a_flood_of_equal_requests_makes_one_job(sessions: Sessions) -> None:
    """A18."""
    flood = [sessions.open() for _ in range(50)]
    asked = [sessions.start(partial(single, db, "return_existing")) for db in flood]
    answers = [answer.result(SECONDS) for answer in asked]
    assert len({job_id for job_id, _ in answers}) == 1
    assert sorted(deduplicated for _, deduplicated in answers) == [False] + [True] * 49
    assert amount(flood[0]) == 1


def test_a_retry_of_a_job_whose_key_has_passed_on_is_superseded(clocked: Verbs) -> None:
    """A16: our policy: the running job is merged into the one that has its key now."""
    first = keyed(clocked, unique_for=timedelta(minutes=1)).id
    claim = clocked.claim_one()
    clocked.advance(60)
    second = keyed(clocked).id
    assert clocked.finish(claim, ends=[end(claim, "retry", code="boom")]).settled == 1
    was = clocked.status(first)
    assert (was.status, was.last_error_code) == ("dead", "superseded")
    assert clocked.claim_one().job_ids == [second]
    assert clocked.value("select count(*) from hudhud.lease") == 1


def test_a_lost_run_of_a_job_whose_key_has_passed_on_is_superseded(clocked: Verbs) -> None:
    """A16."""
    first = keyed(clocked, unique_for=timedelta(minutes=1)).id
    clocked.claim_one()
    clocked.advance(60)
    second = keyed(clocked).id
    assert clocked.answer("rescue") == (0, 1)
    was = clocked.status(first)
    assert (was.status, was.last_error_code) == ("dead", "superseded")
    assert clocked.claim_one().job_ids == [second]


@pytest.mark.parametrize("outcome", ["succeed", "fail", "snooze", "hand_back", "cancel"])
def test_only_a_failure_that_would_be_tried_again_is_superseded(
    clocked: Verbs, outcome: str
) -> None:
    first = keyed(clocked, unique_for=timedelta(minutes=1)).id
    claim = clocked.claim_one()
    clocked.advance(60)
    keyed(clocked)
    clocked.end(claim, outcome, code="why")
    assert clocked.outcomes(first)[0].outcome == outcome
    assert clocked.status(first).last_error_code == "why"
