"""prune: what nobody needs any more goes, in bounded steps, in nobody's way."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from tests.support.sessions import SECONDS
from tests.support.verbs import WORKER

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Verbs

MINUTE = timedelta(minutes=1)


def keys(db: Verbs) -> list[str]:
    return db.values("select key from hudhud.idempotency order by tenant_id, key")


def keyed(db: Verbs, amount: int, prefix: str = "k") -> None:
    db.call(
        "enqueue_many",
        types=["mail"],
        payloads=[{}] * amount,
        idempotency_keys=[f"{prefix}{n:04}" for n in range(amount)],
        unique_for=[MINUTE],
    )


def test_keys_that_ran_out_go_and_the_others_stay(clocked: Verbs) -> None:
    clocked.enqueue(idempotency_key="for ever")
    clocked.enqueue(idempotency_key="short", unique_for=MINUTE)
    clocked.enqueue(idempotency_key="long", unique_for=2 * MINUTE)
    clocked.advance(59)
    assert clocked.answer("prune") == 0
    clocked.advance(1)
    assert clocked.answer("prune") == 1
    assert keys(clocked) == ["for ever", "long"]


def test_a_key_of_the_same_name_that_still_holds_stays(clocked: Verbs) -> None:
    clocked.enqueue(idempotency_key="k", unique_for=MINUTE)
    clocked.enqueue(idempotency_key="k", tenant_id="acme", unique_for=2 * MINUTE)
    clocked.enqueue("sms", idempotency_key="k")
    clocked.advance(60)
    assert clocked.answer("prune") == 1
    assert keys(clocked) == ["k", "k"]


def test_one_step_is_bounded_also_where_tenants_use_the_same_name(clocked: Verbs) -> None:
    tenants = [f"t{n}" for n in range(30)]
    clocked.call(
        "enqueue_many",
        types=["mail"],
        payloads=[{}] * 30,
        idempotency_keys=["same"] * 30,
        tenant_ids=tenants,
        unique_for=[MINUTE],
    )
    clocked.advance(60)
    assert [clocked.answer("prune", max_rows=20) for _ in range(3)] == [20, 10, 0]


def test_requests_to_cancel_go_when_the_job_has_ended(db: Verbs) -> None:
    ended, runs = db.enqueue(), db.enqueue()
    first, second = db.claim_one(), db.claim_one()
    for job_id in (ended, runs):
        db.answer("cancel", job_id=job_id, actor="ann")
    db.finish(first)
    assert db.answer("prune") == 1
    assert db.values("select job_id from hudhud.cancel_request") == [runs] == second.job_ids


def test_workers_that_were_not_seen_for_a_day_go(clocked: Verbs) -> None:
    clocked.call(
        "register_worker",
        worker_id=WORKER,
        name="w",
        host="h",
        pid=1,
        queues=["default"],
        contracts=[],
        release="1",
    )
    clocked.advance(86_400)
    assert clocked.answer("prune") == 0
    clocked.advance(1)
    assert clocked.answer("prune") == 1


def test_a_prune_of_nothing_touches_nothing(db: Verbs) -> None:
    db.enqueue(idempotency_key="k")
    db.run("succeed")
    assert db.answer("prune") == 0
    assert keys(db) == ["k"]


def test_a_prune_waits_for_nobody_who_takes_a_key(sessions: Sessions) -> None:
    """A42."""
    pruner, user = sessions.open(), sessions.open()
    pruner.take_clock()
    keyed(pruner, 3)
    pruner.advance(60)
    pruner.is_impatient = True
    with user.connection.transaction():
        user.enqueue(idempotency_key="k0001")
        assert pruner.answer("prune") == 2
    assert pruner.answer("prune") == 0
    assert keys(pruner) == ["k0001"]


def test_an_enqueue_that_met_a_key_being_pruned_takes_it(sessions: Sessions) -> None:
    pruner, user = sessions.open(), sessions.open()
    pruner.take_clock()
    keyed(pruner, 1)
    pruner.advance(60)
    with user.connection.transaction():
        with pruner.connection.transaction():
            assert pruner.answer("prune") == 1
            waiting = sessions.start_blocked(
                lambda: user.answer("enqueue", type="mail", payload={}, idempotency_key="k0000"),
                waits=user,
                for_=pruner,
            )
        assert waiting.result(SECONDS).deduplicated is False
    assert keys(pruner) == ["k0000"]


def test_maintainers_at_once_never_deadlock_with_each_other_or_with_batches(
    sessions: Sessions,
) -> None:
    """A42: prune, rescue, stage and batches over the same keys, all at once."""
    db = sessions.open()
    db.take_clock()

    def work(*verbs: str) -> None:
        session = sessions.open()
        for _ in range(10):
            for verb in verbs:
                session.call(verb)

    def enqueue(prefix: str) -> None:
        session = sessions.open()
        for _ in range(5):
            keyed(session, 100, prefix)

    for turn in range(5):
        keyed(db, 100, f"a{turn}")
        keyed(db, 100, f"b{turn}")
        db.claim(50)
        db.advance(61)
        asked = [
            *(sessions.start(lambda: work("prune", "rescue", "stage")) for _ in range(4)),
            sessions.start(partial(enqueue, f"a{turn}")),
            sessions.start(partial(enqueue, f"b{turn}")),
        ]
        for answer in asked:
            answer.result(SECONDS)
