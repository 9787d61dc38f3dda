"""Laws of the verbs of effects: what is intended, by whom, and who may say what became of it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.sessions import SECONDS

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.sessions import Sessions
    from tests.support.verbs import Row, Verbs

ROOT = uuid.UUID("01890000-0000-7000-8000-000000000000")


def intend(db: Verbs, claim: Row, **changes: Any) -> Row:  # noqa: ANN401 - arguments
    """Intend the effect `pay` in the first run of a claim."""
    asked = {
        "lease_id": claim.lease_id,
        "place": 1,
        "tenant_id": "default",
        "key": "k",
        "name": "pay",
        "provider": "bank",
        "reconcile": "none",
        "fingerprint": "f",
        "root_id": ROOT,
        "send_seconds": 10.0,
        "settle_seconds": 20.0,
        "token": uuid.uuid4(),
    }
    return db.answer("intend", **(asked | changes))


def close(db: Verbs, found: Row, state: str, **particulars: Any) -> bool:  # noqa: ANN401 - arguments
    return bool(
        db.answer(
            "close_effect",
            effect_id=found.effect_id,
            sends=found.sends,
            state=state,
            **particulars,
        )
    )


def effect(db: Verbs) -> Row:
    return db.row("select * from hudhud.effect")


def claimed(db: Verbs) -> Row:
    db.enqueue()
    return db.claim_one()


def test_the_first_intention_may_be_sent_until_send_before(clocked: Verbs) -> None:
    claim = claimed(clocked)
    found = intend(clocked, claim)
    row = effect(clocked)
    assert (found.verdict, found.sends) == ("send", 1)
    assert (row.state, row.job_id, row.run, row.root_id) == ("intended", claim.job_ids[0], 1, ROOT)
    now = clocked.value("select hudhud.clock()")
    assert (row.send_before - now).total_seconds() == 10
    assert (row.reconcile_after - now).total_seconds() == 30


def test_a_lost_lease_intends_nothing(db: Verbs) -> None:
    claim = claimed(db)
    db.value("delete from hudhud.lease returning 1")
    assert intend(db, claim).verdict == "lost"
    assert db.rows("select from hudhud.effect") == []


def test_a_run_that_has_ended_intends_nothing(db: Verbs) -> None:
    claim = claimed(db)
    db.finish(claim, closes=False, parts=[(claim, 1)])
    assert intend(db, claim).verdict == "lost"


def test_a_place_outside_the_lease_intends_nothing(db: Verbs) -> None:
    assert intend(db, claimed(db), place=2).verdict == "lost"


def test_what_is_done_is_answered_with_its_result(db: Verbs) -> None:
    claim = claimed(db)
    assert close(db, intend(db, claim), "done", result={"number": 7}, reference="P-7")
    found = intend(db, claim)
    assert (found.verdict, found.result, found.reference) == ("done", {"number": 7}, "P-7")


def test_what_is_open_is_to_be_asked_after_when_it_has_settled(clocked: Verbs) -> None:
    claim = claimed(clocked)
    intend(clocked, claim)
    clocked.advance(10)
    found = intend(clocked, claim)
    assert (found.verdict, found.wait_seconds) == ("open", 20)
    assert effect(clocked).state == "unknown"
    clocked.advance(21)
    assert intend(clocked, claim).wait_seconds == 0


def test_who_has_stopped_sending_shortens_the_wait_and_never_prolongs_it(clocked: Verbs) -> None:
    claim = claimed(clocked)
    found = intend(clocked, claim)
    assert close(clocked, found, "unknown", settle_seconds=5.0)
    assert intend(clocked, claim).wait_seconds == 5
    assert close(clocked, found, "unknown", settle_seconds=500.0)
    assert intend(clocked, claim).wait_seconds == 5


def test_what_was_not_done_is_sent_again(db: Verbs) -> None:
    claim = claimed(db)
    assert close(db, intend(db, claim), "not_done", code="refused")
    found = intend(db, claim)
    assert (found.verdict, found.sends) == ("send", 2)
    assert effect(db).code is None


def test_what_was_looked_into_is_sent_again_once(db: Verbs) -> None:
    claim = claimed(db)
    first = intend(db, claim)
    assert intend(db, claim, after_send=first.sends).verdict == "send"
    assert intend(db, claim, after_send=first.sends).verdict == "open"


def test_a_sender_that_was_overtaken_says_nothing_any_more(db: Verbs) -> None:
    claim = claimed(db)
    first = intend(db, claim)
    second = intend(db, claim, after_send=first.sends)
    for state in ("done", "not_done", "unknown"):
        assert not close(db, first, state)
    assert effect(db).state == "intended"
    assert close(db, second, "done")


def test_the_same_answer_twice_is_no_contradiction_and_another_one_is_refused(db: Verbs) -> None:
    """A50. The record's reply may be lost; it is then sent again."""
    found = intend(db, claimed(db))
    assert close(db, found, "done", result={"number": 1})
    assert close(db, found, "done", result={"number": 1})
    assert not close(db, found, "not_done")
    assert not close(db, found, "unknown")
    assert effect(db).state == "done"


def test_another_request_under_the_same_key_is_refused(db: Verbs) -> None:
    claim = claimed(db)
    intend(db, claim)
    with db.refused("HH009", "pay", "k"):
        intend(db, claim, fingerprint="g")


def test_what_was_not_done_may_be_asked_for_otherwise(db: Verbs) -> None:
    claim = claimed(db)
    assert close(db, intend(db, claim), "not_done", code="refused")
    assert intend(db, claim, fingerprint="g").verdict == "send"
    with db.refused("HH009"):
        intend(db, claim)


def test_an_intention_whose_answer_was_lost_is_asked_for_again(db: Verbs) -> None:
    claim, token = claimed(db), uuid.uuid4()
    first = intend(db, claim, token=token)
    again = intend(db, claim, token=token)
    assert (again.verdict, again.sends, again.effect_id) == ("send", 1, first.effect_id)
    assert intend(db, claim).verdict == "open"
    assert intend(db, claim, token=token).verdict == "open"


def test_what_is_open_says_whom_it_was_asked_of(db: Verbs) -> None:
    claim = claimed(db)
    intend(db, claim)
    assert intend(db, claim, provider="other").of_provider == "bank"


def test_keys_of_tenants_do_not_meet(db: Verbs) -> None:
    claim = claimed(db)
    intend(db, claim)
    assert intend(db, claim, tenant_id="other", fingerprint="g").verdict == "send"


def test_a_job_that_is_to_be_cancelled_sends_nothing_new_but_learns_what_is_done(db: Verbs) -> None:
    claim = claimed(db)
    assert close(db, intend(db, claim, key="first"), "done")
    assert db.answer("cancel", job_id=claim.job_ids[0], actor="ann") == "requested"
    assert intend(db, claim, key="first").verdict == "done"
    assert intend(db, claim, key="second").verdict == "cancelled"
    assert db.values("select key from hudhud.effect") == ["first"]


@pytest.mark.parametrize(
    ("reconcile", "verdict"),
    [("queryable", "cancelled"), ("dedups", "send"), ("replaces", "send"), ("none", "send")],
)
def test_a_cancelled_job_sends_again_only_where_that_is_the_way_to_find_out(
    db: Verbs, reconcile: str, verdict: str
) -> None:
    claim = claimed(db)
    intend(db, claim, reconcile=reconcile)
    assert db.answer("cancel", job_id=claim.job_ids[0], actor="ann") == "requested"
    assert intend(db, claim, reconcile=reconcile, after_send=1).verdict == verdict


def test_an_intention_does_not_wait_for_a_finish_of_its_neighbours(own: Sessions) -> None:
    first, second = own.open(), own.open()
    first.enqueue()
    first.enqueue()
    claim = first.claim(2)
    with first.connection.transaction():
        first.finish(claim, closes=False, parts=[(claim, 2)])
        second.is_impatient = True
        assert intend(second, claim).verdict == "send"


def test_nobody_rescues_a_run_while_it_commits_its_intention(own: Sessions) -> None:
    first, second = own.open(), own.open()
    first.enqueue()
    claim = first.claim_one(lease_seconds=0)
    with first.connection.transaction():
        intend(first, claim)
        assert second.answer("rescue").rescued == 0
    assert second.answer("rescue").rescued == 1


def test_two_runs_of_one_key_are_never_both_told_to_send(own: Sessions) -> None:
    first, second = own.open(), own.open()
    first.enqueue()
    first.enqueue()
    one, other = first.claim_one(), first.claim_one()
    with second.connection.transaction():
        with first.connection.transaction():
            assert intend(first, one).verdict == "send"
            waiting = own.start_blocked(lambda: intend(second, other), waits=second, for_=first)
        assert waiting.result(SECONDS).verdict == "open"


def held(db: Verbs) -> tuple[UUID, Row]:
    """Let a job wait for an operator; return its id and the effect."""
    claim = claimed(db)
    found = intend(db, claim, send_seconds=0.0, settle_seconds=0.0)
    db.end(claim, "snooze", code="effect_unknown", effect=str(found.effect_id))
    return claim.job_ids[0], found


def test_a_job_waits_for_the_decision_and_goes_on_with_it(db: Verbs) -> None:
    job, found = held(db)
    assert (db.status(job).status, db.status(job).waiting_for) == ("pending", "hold")
    assert db.answer("stage", max_jobs=10) == 0
    freed = db.answer(
        "decide_effect", effect_id=found.effect_id, decision="not_done", actor="ann", reason="rang"
    )
    assert freed == 1
    assert db.place(job) == "ready"
    claim = db.claim_one()
    assert (claim.runs, claim.attempts) == ([2], [1])
    assert intend(db, claim).verdict == "send"


def test_a_decision_that_came_first_holds_nobody_up(db: Verbs) -> None:
    claim = claimed(db)
    found = intend(db, claim, send_seconds=0.0, settle_seconds=0.0)
    db.answer(
        "decide_effect", effect_id=found.effect_id, decision="done", actor="ann", reason="rang"
    )
    db.end(claim, "snooze", code="effect_unknown", effect=str(found.effect_id))
    assert db.place(claim.job_ids[0]) == "ready"


def test_a_hold_and_its_decision_at_once_lose_nobody(own: Sessions) -> None:
    first, second = own.open(), own.open()
    claim = claimed(first)
    found = intend(first, claim, send_seconds=0.0, settle_seconds=0.0)

    def decide() -> int:
        return int(
            second.answer(
                "decide_effect",
                effect_id=found.effect_id,
                decision="done",
                actor="ann",
                reason="rang",
            )
        )

    with second.connection.transaction():
        with first.connection.transaction():
            first.end(claim, "snooze", code="effect_unknown", effect=str(found.effect_id))
            deciding = own.start_blocked(decide, waits=second, for_=first)
        assert deciding.result(SECONDS) == 1
    assert first.place(claim.job_ids[0]) == "ready"


def test_a_late_answer_of_the_sender_frees_whoever_waits(db: Verbs) -> None:
    job, found = held(db)
    assert close(db, found, "done", result={"number": 1})
    assert db.place(job) == "ready"


def test_a_decision_is_audited_and_made_once(db: Verbs) -> None:
    _, found = held(db)
    words = {"effect_id": found.effect_id, "actor": "ann", "reason": "rang the bank"}
    db.answer("decide_effect", decision="done", result={"number": 3}, **words)
    assert (effect(db).state, effect(db).result) == ("done", {"number": 3})
    row = db.row("select actor, action, reason, detail from hudhud.audit")
    assert (row.actor, row.action, row.reason) == ("ann", "effect.decide", "rang the bank")
    assert row.detail["decision"] == "done"
    with db.refused("HH007", "done"):
        db.answer("decide_effect", decision="not_done", **words)


@pytest.mark.parametrize(
    ("changes", "state", "word"),
    [
        ({"actor": ""}, "HH001", "actor"),
        ({"reason": " "}, "HH001", "reason"),
        ({"decision": "maybe"}, "HH001", "maybe"),
        ({"decision": "not_done", "result": {}}, "HH001", "result"),
        ({"effect_id": ROOT}, "HH006", str(ROOT)),
        ({"tenant_id": "other"}, "HH006", "no effect"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_decision_of_nobody_for_no_reason_or_elsewhere_is_refused(
    db: Verbs, changes: dict[str, object], *, state: str, word: str
) -> None:
    _, found = held(db)
    words: dict[str, object] = {
        "effect_id": found.effect_id,
        "decision": "done",
        "actor": "ann",
        "reason": "rang",
    }
    with db.refused(state, word):
        db.answer("decide_effect", **(words | changes))


def test_what_may_still_be_under_way_is_not_decided(db: Verbs) -> None:
    found = intend(db, claimed(db))
    with db.refused("HH007", "under way"):
        db.answer(
            "decide_effect", effect_id=found.effect_id, decision="done", actor="ann", reason="x"
        )


def test_a_waiting_job_with_an_open_effect_is_cancelled_by_request(db: Verbs) -> None:
    claim = claimed(db)
    job = claim.job_ids[0]
    found = intend(db, claim)
    db.end(claim, "retry", delay_seconds=0)
    assert db.answer("cancel", job_id=job, actor="ann") == "requested"
    assert db.place(job) == "ready"
    again = db.claim_one()
    db.end(again, "retry", delay_seconds=0)
    assert db.outcomes(job)[-1].outcome == "retry"
    assert close(db, found, "not_done")
    db.run("retry", delay_seconds=0)
    assert db.status(job).status == "cancelled"


def test_a_correction_waits_until_it_is_known_what_became_of_the_old_effects(db: Verbs) -> None:
    claim = claimed(db)
    job = claim.job_ids[0]
    found = intend(db, claim)
    db.end(claim, "fail")
    words = {"job_id": job, "payload": {"a": 1}, "actor": "ann", "reason": "mended"}
    with db.refused("HH007", "hudhud effects"):
        db.answer("resubmit", **words)
    assert close(db, found, "not_done")
    assert db.answer("resubmit", **words) is not None


def test_closed_effects_go_when_no_job_can_carry_their_key(clocked: Verbs) -> None:
    job = clocked.enqueue()
    claim = clocked.claim_one()
    root = {"root_id": job}
    assert close(clocked, intend(clocked, claim, key="done", **root), "done")
    assert close(clocked, intend(clocked, claim, key="free", fingerprint="x"), "done")
    intend(clocked, claim, key="open", **root)
    clocked.end(claim, "fail")
    replay = clocked.answer("replay", job_id=job, actor="ann", reason="again")
    clocked.advance(91 * 86_400)
    assert clocked.answer("prune_effects") == 0
    clocked.value("delete from hudhud.job where id = %s returning 1", job)
    assert clocked.answer("prune_effects") == 0
    clocked.value("delete from hudhud.job where id = %s returning 1", replay)
    assert clocked.answer("prune_effects") == 2
    assert clocked.values("select key from hudhud.effect") == ["open"]


def test_a_job_that_came_by_keeps_the_record_of_what_another_did(clocked: Verbs) -> None:
    first, second = claimed(clocked), claimed(clocked)
    root = {"root_id": first.job_ids[0]}
    assert close(clocked, intend(clocked, first, **root), "done")
    clocked.finish(first)
    clocked.advance(91 * 86_400)
    assert intend(clocked, second, **root).verdict == "done"
    clocked.value("delete from hudhud.job where id = %s returning 1", first.job_ids[0])
    assert clocked.answer("prune_effects") == 0
    clocked.advance(91 * 86_400)
    assert clocked.answer("prune_effects") == 0
    clocked.value("delete from hudhud.job where id = %s returning 1", second.job_ids[0])
    assert clocked.answer("prune_effects") == 1


def test_a_decided_result_is_as_small_as_any(db: Verbs) -> None:
    _, found = held(db)
    words = {"effect_id": found.effect_id, "decision": "done", "actor": "ann", "reason": "rang"}
    with db.refused("HH002", "bytes"):
        db.answer("decide_effect", result={"a": "x" * 20_000}, **words)
