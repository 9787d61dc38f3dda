"""finish: a run ends once, under its lease or not at all."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.sessions import SECONDS
from tests.support.verbs import WORKER, end

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.sessions import Sessions
    from tests.support.verbs import Row, Verbs


def claimed(db: Verbs, amount: int = 1) -> Row:
    """Enqueue jobs and claim them under one lease."""
    db.call("enqueue_many", types=["mail"], payloads=[{}] * amount)
    return db.claim(amount)


def leases(db: Verbs) -> int:
    return int(db.value("select count(*) from hudhud.lease"))


def test_a_closed_lease_has_succeeded_but_for_what_is_named(clocked: Verbs) -> None:
    claim = claimed(clocked, 4)
    clocked.advance(5)
    answer = clocked.finish(claim, ends=[end(claim, "fail", 2, code="boom")])
    assert answer == (4, [], 0)
    told = [clocked.status(job_id).status for job_id in claim.job_ids]
    assert told == ["succeeded", "dead", "succeeded", "succeeded"]
    assert leases(clocked) == 0
    (run,) = clocked.outcomes(claim.job_ids[0])
    assert (run.run, run.attempt, run.outcome, run.shard) == (1, 1, "succeed", 0)
    assert run.worker_id == WORKER
    assert (run.finished_at - run.claimed_at).total_seconds() == 5


def test_a_lease_stays_open_and_keeps_what_was_not_named(db: Verbs) -> None:
    claim = claimed(db, 4)
    answer = db.finish(
        claim, closes=False, parts=[(claim, 1)], ends=[end(claim, "retry", 3, delay_seconds=60)]
    )
    assert answer == (2, [], 0)
    told = [db.status(job_id).status for job_id in claim.job_ids]
    assert told == ["succeeded", "running", "retryable", "running"]
    assert leases(db) == 1
    assert db.finish(claim) == (2, [], 0)
    told = [db.status(job_id).status for job_id in claim.job_ids]
    assert told == ["succeeded", "succeeded", "retryable", "succeeded"]


def test_several_leases_are_finished_at_once(db: Verbs) -> None:
    first, second, third = (claimed(db, 2) for _ in range(3))
    answer = db.answer(
        "finish",
        leases=[first.lease_id, second.lease_id, third.lease_id],
        closes=[True, False, True],
        part_leases=[second.lease_id],
        part_positions=[2],
        settlements=[end(first, "fail", 1), end(second, "cancel", 1)],
    )
    assert answer == (6, [], 0)
    told = [db.status(job_id).status for one in (first, second, third) for job_id in one.job_ids]
    assert told == ["dead", "succeeded", "cancelled", "succeeded", "succeeded", "succeeded"]
    assert db.value("select id from hudhud.lease") == second.lease_id


def test_a_lost_lease_settles_nothing(db: Verbs) -> None:
    lost, held = claimed(db, 2), claimed(db, 2)
    db.connection.execute("delete from hudhud.lease where id = %s", [lost.lease_id])
    answer = db.finish(lost, held, ends=[end(lost, "fail", 1), end(held, "fail", 1)])
    assert answer == (2, [lost.lease_id], 1)
    assert db.outcomes(lost.job_ids[0]) == db.outcomes(lost.job_ids[1]) == []
    assert [db.status(job_id).status for job_id in held.job_ids] == ["dead", "succeeded"]


def test_a_part_of_a_lost_lease_is_refused(db: Verbs) -> None:
    lost = claimed(db, 2)
    db.connection.execute("delete from hudhud.lease")
    answer = db.finish(lost, closes=False, parts=[(lost, 1), (lost, 2)])
    assert answer == (0, [lost.lease_id], 2)


def test_what_is_named_must_be_of_a_lease_that_is_named(db: Verbs) -> None:
    claim, other = claimed(db), claimed(db)
    answer = db.finish(claim, parts=[(other, 1)], ends=[end(other, "fail")])
    assert answer == (1, [], 2)
    assert db.outcomes(other.job_ids[0]) == []


def test_a_run_ends_once(db: Verbs) -> None:
    claim = claimed(db, 2)
    first = db.finish(claim, closes=False, parts=[(claim, 1)], ends=[end(claim, "retry", 2)])
    assert first == (2, [], 0)
    again = db.finish(
        claim, closes=False, parts=[(claim, 2)], ends=[end(claim, "fail", 1), end(claim, "fail", 2)]
    )
    assert again == (0, [], 3)
    assert [db.outcomes(job_id)[0].outcome for job_id in claim.job_ids] == ["succeed", "retry"]
    assert db.finish(claim) == (0, [], 0)


def test_a_run_named_twice_ends_by_the_first_settlement(db: Verbs) -> None:
    claim = claimed(db)
    ends = [end(claim, "fail", code="first"), end(claim, "retry", code="second")]
    assert db.finish(claim, ends=ends) == (1, [], 1)
    assert db.status(claim.job_ids[0]).last_error_code == "first"
    assert db.place(claim.job_ids[0]) is None


@pytest.mark.parametrize("position", [0, -1, 3, 2**31 - 1])
def test_a_position_outside_the_lease_is_refused(db: Verbs, position: int) -> None:
    claim = claimed(db, 2)
    answer = db.finish(
        claim, closes=False, parts=[(claim, position)], ends=[end(claim, "fail", position)]
    )
    assert answer == (0, [], 2)
    assert db.finish(claim) == (2, [], 0)


@pytest.mark.parametrize("outcome", ["lost", "bogus", None])
def test_what_is_no_end_that_a_worker_can_settle_is_refused(db: Verbs, outcome: str) -> None:
    claim = claimed(db)
    assert db.finish(claim, closes=False, ends=[end(claim, outcome)]) == (0, [], 1)
    assert db.status(claim.job_ids[0]).status == "running"


def test_a_finish_after_a_rescue_is_refused_and_the_next_run_stands(clocked: Verbs) -> None:
    """A01, A03."""
    claim = claimed(clocked)
    clocked.advance(31)
    assert clocked.answer("rescue") == (1, 0)
    second = clocked.claim_one()
    assert clocked.finish(claim) == (0, [claim.lease_id], 0)
    assert clocked.end(second, "succeed", result={"n": 2}).settled == 1
    runs = clocked.outcomes(claim.job_ids[0])
    assert [(run.run, run.attempt, run.outcome) for run in runs] == [
        (1, 1, "lost"),
        (2, 2, "succeed"),
    ]


def test_finishing_nothing_is_no_error(db: Verbs) -> None:
    assert db.answer("finish", leases=[], closes=[]) == (0, [], 0)
    unknown = uuid.uuid4()
    assert db.answer("finish", leases=[unknown], closes=[True]) == (0, [unknown], 0)


def test_a_rescue_leaves_alone_a_lease_that_is_being_finished(sessions: Sessions) -> None:
    """A01: the rescuer comes while the finish is not committed yet."""
    worker, rescuer = sessions.open(), sessions.open()
    worker.take_clock()
    claim = claimed(worker)
    worker.advance(31)
    rescuer.is_impatient = True
    with worker.connection.transaction():
        assert worker.finish(claim).settled == 1
        assert rescuer.answer("rescue") == (0, 0)
    assert rescuer.answer("rescue") == (0, 0)
    assert_ended_once(worker, claim.job_ids[0], "succeed")


def test_a_rescuer_that_has_selected_the_lease_finds_it_finished(sessions: Sessions) -> None:
    """A01: the finish commits between the rescuer's choice and its change."""
    worker, rescuer = sessions.open(), sessions.open()
    worker.take_clock()
    claim = claimed(worker)
    worker.advance(31)
    rescuer.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with rescuer.connection.transaction():
        chosen = rescuer.values("select id from hudhud.lease where locked_until <= hudhud.clock()")
        assert chosen == [claim.lease_id]
        assert worker.finish(claim).settled == 1
        with rescuer.refused("40001"):
            rescuer.answer("rescue")
    assert_ended_once(worker, claim.job_ids[0], "succeed")


def test_a_finish_waits_for_a_rescue_that_came_first_and_settles_nothing(
    sessions: Sessions,
) -> None:
    """A01."""
    worker, rescuer = sessions.open(), sessions.open()
    worker.take_clock()
    claim = claimed(worker)
    worker.advance(31)
    with worker.connection.transaction():
        with rescuer.connection.transaction():
            assert rescuer.answer("rescue") == (1, 0)
            waiting = sessions.start_blocked(
                lambda: worker.finish(claim), waits=worker, for_=rescuer
            )
        assert waiting.result(SECONDS) == (0, [claim.lease_id], 0)
    assert_ended_once(worker, claim.job_ids[0], "lost")
    assert worker.status(claim.job_ids[0]).attempts == 1
    assert worker.place(claim.job_ids[0]) == "ready"


def test_a_finish_takes_the_lease_when_the_rescue_is_rolled_back(sessions: Sessions) -> None:
    """A01."""
    worker, rescuer = sessions.open(), sessions.open()
    worker.take_clock()
    claim = claimed(worker)
    worker.advance(31)
    with worker.connection.transaction():
        with rescuer.connection.transaction(force_rollback=True):
            rescuer.answer("rescue")
            waiting = sessions.start_blocked(
                lambda: worker.finish(claim), waits=worker, for_=rescuer
            )
        assert waiting.result(SECONDS) == (1, [], 0)
    assert_ended_once(worker, claim.job_ids[0], "succeed")


def assert_ended_once(db: Verbs, job_id: UUID, outcome: str) -> None:
    assert [run.outcome for run in db.outcomes(job_id)] == [outcome]


def test_two_finishers_lock_leases_in_one_order(sessions: Sessions) -> None:
    """A42: the second waits for the first at the first lease that both name, and holds none."""
    first, second = sessions.open(), sessions.open()
    claims = sorted((claimed(first) for _ in range(4)), key=lambda claim: str(claim.lease_id))
    with second.connection.transaction():
        with first.connection.transaction():
            assert first.finish(*claims).settled == 4
            waiting = sessions.start_blocked(
                lambda: second.finish(*reversed(claims)), waits=second, for_=first
            )
        answer = waiting.result(SECONDS)
    assert (answer.settled, len(answer.lost_leases)) == (0, 4)


@pytest.mark.parametrize("closes", [True, False])
def test_a_finish_that_is_sent_again_while_the_first_is_under_way_waits_and_is_refused(
    sessions: Sessions, *, closes: bool
) -> None:
    """A50: the connection was lost, and with it the answer."""
    first, second = sessions.open(), sessions.open()
    claim = claimed(first, 3)
    ends = [end(claim, "retry", 2), end(claim, "fail", 3)]
    with second.connection.transaction():
        with first.connection.transaction():
            settled = first.finish(claim, closes=False, ends=ends[:1])
            assert settled == (1, [], 0)
            waiting = sessions.start_blocked(
                lambda: second.finish(claim, closes=closes, ends=ends), waits=second, for_=first
            )
            assert first.finish(claim, closes=closes, ends=ends[1:]).settled == (2 if closes else 1)
        answer = waiting.result(SECONDS)
    assert (answer.settled, answer.refused) == (0, 2)
    told = [first.outcomes(job_id)[-1].outcome for job_id in claim.job_ids[1:]]
    assert told == ["retry", "fail"]


def close(db: Verbs, *claims: Row) -> Row:
    """Close leases of which every run succeeded, as a finish does nearly always."""
    return db.answer("finish", leases=[], closes=[], whole=[claim.lease_id for claim in claims])


def test_whole_leases_are_closed_with_every_run_a_success(clocked: Verbs) -> None:
    first, second = claimed(clocked, 3), claimed(clocked, 2)
    clocked.advance(5)
    assert close(clocked, first, second) == (5, [], 0)
    assert leases(clocked) == 0
    for job_id in (*first.job_ids, *second.job_ids):
        assert clocked.status(job_id).status == "succeeded"
        (run,) = clocked.outcomes(job_id)
        assert (run.run, run.attempt, run.worker_id, run.shard) == (1, 1, WORKER, 0)
        assert (run.finished_at - run.claimed_at).total_seconds() == 5


def test_a_whole_lease_that_is_lost_settles_nothing(clocked: Verbs) -> None:
    """A01."""
    lost, held = claimed(clocked, 2), claimed(clocked, 2)
    clocked.connection.execute("delete from hudhud.lease where id = %s", [lost.lease_id])
    assert close(clocked, lost, held) == (2, [lost.lease_id], 0)
    assert clocked.outcomes(lost.job_ids[0]) == []
    assert close(clocked, lost, held) == (0, [lost.lease_id, held.lease_id], 0)


def test_whole_leases_and_others_are_finished_at_once(db: Verbs) -> None:
    whole, part, lost = claimed(db, 2), claimed(db, 2), claimed(db)
    db.connection.execute("delete from hudhud.lease where id = %s", [lost.lease_id])
    answer = db.answer(
        "finish",
        leases=[part.lease_id],
        closes=[True],
        settlements=[end(part, "fail", 1)],
        whole=[whole.lease_id, lost.lease_id],
    )
    assert answer == (4, [lost.lease_id], 0)
    told = [db.status(job_id).status for job_id in (*whole.job_ids, *part.job_ids)]
    assert told == ["succeeded", "succeeded", "dead", "succeeded"]


@pytest.mark.parametrize("outcome", ["succeed", "retry"])
def test_a_lease_that_is_called_whole_but_has_an_ended_run_is_refused_whole(
    db: Verbs, outcome: str
) -> None:
    claim = claimed(db, 2)
    db.finish(claim, closes=False, ends=[end(claim, outcome, 1)])
    with db.refused("23505"):
        close(db, claim)
    assert leases(db) == 1
    assert db.finish(claim) == (1, [], 0)
    assert db.outcomes(claim.job_ids[0])[-1].outcome == outcome


@pytest.mark.parametrize("outcome", ["succeed", "retry"])
def test_an_ended_run_is_refused_also_when_its_day_was_closed_since(
    db: Verbs, outcome: str
) -> None:
    claim = claimed(db, 2)
    db.finish(claim, closes=False, ends=[end(claim, outcome, 1)])
    db.value("select hudhud.close_day((clock_timestamp() at time zone 'UTC')::date)")
    with db.refused("23505"):
        close(db, claim)
    assert db.finish(claim) == (1, [], 0)
    assert [run.outcome for run in db.outcomes(claim.job_ids[0])] == [outcome]


def test_whole_leases_of_a_closed_day_are_closed(db: Verbs) -> None:
    claim = claimed(db, 3)
    db.value("select hudhud.close_day((clock_timestamp() at time zone 'UTC')::date)")
    assert close(db, claim) == (3, [], 0)
    assert db.value("select count(*) from hudhud.outcome_kept") == 3
    assert db.status(claim.job_ids[0]).status == "succeeded"


def test_closing_a_whole_lease_waits_for_a_rescue_and_then_finds_it_lost(
    sessions: Sessions,
) -> None:
    """A01."""
    worker, rescuer = sessions.open(), sessions.open()
    worker.take_clock()
    claim = claimed(worker)
    worker.advance(31)
    with worker.connection.transaction():
        with rescuer.connection.transaction():
            assert rescuer.answer("rescue") == (1, 0)
            waiting = sessions.start_blocked(
                lambda: close(worker, claim), waits=worker, for_=rescuer
            )
        assert waiting.result(SECONDS) == (0, [claim.lease_id], 0)
    assert_ended_once(worker, claim.job_ids[0], "lost")


def test_a_finish_does_not_wait_for_ever_for_a_handlers_transaction(sessions: Sessions) -> None:
    worker, handler = sessions.open(), sessions.open()
    claim = claimed(worker)
    with handler.connection.transaction(force_rollback=True):
        assert handler.answer("settle", lease_id=claim.lease_id, place=1) is True
        with worker.refused("55P03"):
            worker.connection.execute(_IMPATIENT)
            worker.end(claim, "retry", code="timeout")
    assert worker.end(claim, "retry", code="timeout").settled == 1


# What holds for three seconds holds for a moment: undone with the refused transaction.
_IMPATIENT = """
do $$ begin
    assert (select proconfig from pg_proc where oid = 'hudhud.finish'::regproc)
        @> '{lock_timeout=3s}';
    alter function hudhud.finish set lock_timeout = '1ms';
end $$
"""


def test_a_thousand_runs_end_in_one_finish(db: Verbs) -> None:
    claim = claimed(db, 1_000)
    ends = [end(claim, "retry", n, delay_seconds=n % 2) for n in range(1, 1_001, 10)]
    assert db.finish(claim, ends=ends) == (1_000, [], 0)
    told = dict(db.rows("select status, count(*) from hudhud.job_status group by 1"))
    assert told == {"succeeded": 900, "retryable": 100}
