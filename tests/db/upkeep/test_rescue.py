"""rescue: what a dead worker held runs again; a job that kills its workers does not for ever."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.support.sessions import SECONDS
from tests.support.verbs import WORKER, end

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.sessions import Sessions
    from tests.support.verbs import Row, Value, Verbs


def fill(db: Verbs, amount: int, **arrays: Value) -> list[UUID]:
    row = db.answer("enqueue_many", types=["mail"], payloads=[{}] * amount, **arrays)
    return row.ids  # type: ignore[no-any-return]


def lost(db: Verbs, amount: int = 1) -> Row:
    """Claim and let the lease run out."""
    claim = db.claim(amount)
    db.advance(31)
    return claim


def test_a_lease_that_holds_is_left_alone(clocked: Verbs) -> None:
    fill(clocked, 1)
    clocked.claim()
    clocked.advance(29)
    assert clocked.answer("rescue") == (0, 0)
    clocked.advance(1)
    assert clocked.answer("rescue") == (1, 0)


def test_a_rescued_job_is_ready_again_at_once_with_its_attempt_counted(clocked: Verbs) -> None:
    (job_id,) = fill(clocked, 1)
    lost(clocked)
    assert clocked.answer("rescue") == (1, 0)
    told = clocked.status(job_id)
    assert (told.status, told.attempts, told.waiting_for) == ("retryable", 1, None)
    assert told.last_error_code == "worker_lost"
    (run,) = clocked.outcomes(job_id)
    assert (run.outcome, run.run, run.attempt, run.worker_id) == ("lost", 1, 1, WORKER)
    claim = clocked.claim_one()
    assert (claim.runs, claim.attempts) == ([2], [2])


def test_what_had_ended_before_is_not_run_again(clocked: Verbs) -> None:
    ids = fill(clocked, 4)
    claim = clocked.claim()
    clocked.finish(
        claim, closes=False, parts=[(claim, 1)], ends=[end(claim, "retry", 2, delay_seconds=900)]
    )
    clocked.advance(31)
    assert clocked.answer("rescue") == (2, 0)
    told = [clocked.outcomes(job_id)[-1].outcome for job_id in ids]
    assert told == ["succeed", "retry", "lost", "lost"]
    assert clocked.place(ids[1]) == "scheduled"


def test_a_rescue_does_not_ask_the_workers_row(clocked: Verbs) -> None:
    """A02 (1): the dead worker's row is gone."""
    (job_id,) = fill(clocked, 1)
    register(clocked, WORKER, "w")
    lost(clocked)
    clocked.call("leave", worker_id=WORKER)
    assert clocked.answer("rescue") == (1, 0)
    assert clocked.claim_one().job_ids == [job_id]


def test_a_new_process_of_the_same_name_keeps_nobodys_lease(clocked: Verbs) -> None:
    """A02 (2)."""
    (job_id,) = fill(clocked, 1)
    register(clocked, WORKER, "w")
    claim = lost(clocked)
    heir = uuid.UUID(int=8)
    register(clocked, heir, "w")
    clocked.call("beat", worker_id=heir)
    clocked.call("renew", worker_id=heir, leases=[claim.lease_id], lease_seconds=30)
    assert clocked.answer("rescue") == (1, 0)
    assert clocked.place(job_id) == "ready"


def register(db: Verbs, worker_id: UUID, name: str) -> None:
    db.call(
        "register_worker",
        worker_id=worker_id,
        name=name,
        host="h",
        pid=1,
        queues=["default"],
        contracts=["mail:1"],
        release="1",
    )


def test_a_job_that_kills_its_worker_is_dead_after_max_crashes(clocked: Verbs) -> None:
    """A11."""
    (job_id,) = fill(clocked, 1)
    for crash in range(1, 4):
        claim = lost(clocked)
        assert claim.crashes == [crash - 1]
        assert clocked.answer("rescue") == ((0, 1) if crash == 3 else (1, 0))
    told = clocked.status(job_id)
    assert (told.status, told.last_error_code, told.attempts) == ("dead", "worker_lost", 3)
    assert clocked.place(job_id) is None


def test_a_job_that_kills_its_worker_is_dead_after_its_last_attempt(clocked: Verbs) -> None:
    """A11."""
    (job_id,) = fill(clocked, 1, max_attempts=[2])
    lost(clocked)
    assert clocked.answer("rescue") == (1, 0)
    lost(clocked)
    assert clocked.answer("rescue") == (0, 1)
    assert clocked.status(job_id).last_error_code == "worker_lost"


@pytest.mark.parametrize(("announced", "allowed"), [(1, 1), (5, 5), (None, 2)])
def test_how_many_crashes_is_the_types_word_or_the_settings(
    clocked: Verbs, announced: int | None, allowed: int
) -> None:
    clocked.connection.execute("update hudhud.setting set max_crashes = 2")
    if announced:
        clocked.call("announce", types=[{"type": "mail", "version": 1, "max_crashes": announced}])
    fill(clocked, 1)
    crashes = 0
    while lost(clocked):
        crashes += 1
        clocked.answer("rescue")
    assert crashes == allowed


def test_neighbours_of_a_poison_job_lose_one_attempt_and_no_more(clocked: Verbs) -> None:
    """A11."""
    ids = fill(clocked, 5)
    poison = ids[2]
    lost(clocked, 5)
    assert clocked.answer("rescue") == (5, 0)
    while claim := clocked.claim(5):
        assert len(claim.job_ids) == 1
        if claim.job_ids == [poison]:
            clocked.advance(31)
            clocked.answer("rescue")
        else:
            assert (claim.crashes, claim.attempts) == ([0], [2])
            clocked.finish(claim)
    told = {job_id: clocked.status(job_id).status for job_id in ids}
    assert told == dict.fromkeys(ids, "succeeded") | {poison: "dead"}
    assert len(clocked.outcomes(poison)) == 4


def test_a_crash_counts_only_in_a_lease_of_one(clocked: Verbs) -> None:
    fill(clocked, 2)
    for _ in range(5):
        lost(clocked, 2)
        clocked.answer("rescue")
        clocked.connection.execute("update hudhud.ready set line = 2")
    assert set(clocked.values("select crashes from hudhud.ready")) == {0}


def test_suspects_that_are_lost_together_keep_their_attempt(clocked: Verbs) -> None:
    """A11: neighbours lose one attempt, the one that made them suspects, and no second."""
    ids = fill(clocked, 3, max_attempts=[2])
    lost(clocked, 3)
    assert clocked.answer("rescue") == (3, 0)
    claim = clocked.claim(100, suspects=3)
    assert (claim.attempts, claim.crashes) == ([2, 2, 2], [0, 0, 0])
    clocked.advance(31)
    assert clocked.answer("rescue") == (3, 0)
    assert [run.attempt for run in clocked.outcomes(ids[0])] == [1, 2]
    for job_id in ids:
        alone = clocked.claim(100, suspects=3)
        assert (alone.job_ids, alone.runs, alone.attempts) == ([job_id], [3], [2])
        clocked.finish(alone)
    assert {clocked.status(job_id).status for job_id in ids} == {"succeeded"}


def test_a_rescue_is_bounded_and_takes_the_oldest_first(clocked: Verbs) -> None:
    ids = fill(clocked, 5)
    for _ in ids:
        clocked.claim_one()
        clocked.advance(1)
    clocked.advance(31)
    assert clocked.answer("rescue", max_leases=2) == (2, 0)
    assert [clocked.place(job_id) for job_id in ids] == ["ready"] * 2 + [None] * 3
    assert clocked.answer("rescue") == (3, 0)
    assert clocked.answer("rescue") == (0, 0)


def test_rescuers_at_once_share_the_leases_and_wait_for_nobody(sessions: Sessions) -> None:
    """A42."""
    db, other = sessions.open(), sessions.open()
    db.take_clock()
    fill(db, 3)
    for _ in range(3):
        db.claim_one()
    db.advance(31)
    other.is_impatient = True
    with db.connection.transaction():
        assert db.answer("rescue", max_leases=2) == (2, 0)
        assert other.answer("rescue") == (1, 0)
    assert other.answer("rescue") == (0, 0)
    runs = db.values("select count(*) from hudhud.outcome group by job_id")
    assert runs == [1, 1, 1]


def test_many_rescuers_take_each_lease_once(sessions: Sessions) -> None:
    db = sessions.open()
    db.take_clock()
    fill(db, 400)
    db.ranges()
    while db.claim(4):
        pass
    db.advance(31)

    def rescue_all() -> int:
        rescuer, rescued = sessions.open(), 0
        while any(found := rescuer.answer("rescue", max_leases=5)):
            rescued += found.rescued
        return rescued

    asked = [sessions.start(rescue_all) for _ in range(4)]
    assert sum(answer.result(SECONDS) for answer in asked) == 400
    assert db.value("select count(distinct job_id) from hudhud.ready") == 400


def test_a_lease_renewed_while_the_rescuer_chose_is_left_alone(sessions: Sessions) -> None:
    worker, rescuer = sessions.open(), sessions.open()
    worker.take_clock()
    fill(worker, 1)
    claim = lost(worker)
    with rescuer.connection.transaction():
        with worker.connection.transaction():
            worker.call("renew", worker_id=WORKER, leases=[claim.lease_id], lease_seconds=30)
            assert rescuer.answer("rescue") == (0, 0)
        assert rescuer.answer("rescue") == (0, 0)
    assert worker.status(claim.job_ids[0]).status == "running"


def test_instants_of_a_rescue_are_the_databases(clocked: Verbs) -> None:
    """A04."""
    (job_id,) = fill(clocked, 1)
    clocked.claim()
    clocked.advance(-86_400)
    assert clocked.answer("rescue") == (0, 0)
    clocked.advance(2 * 86_400)
    clocked.answer("rescue")
    (run,) = clocked.outcomes(job_id)
    assert run.finished_at == clocked.value("select hudhud.clock()")
