"""settle: success inside the handler's own transaction, so that both commit or neither does."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from psycopg.types.json import Jsonb

from tests.support.sessions import SECONDS
from tests.support.verbs import end

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Row, Verbs


def claimed(db: Verbs, amount: int = 1) -> Row:
    db.call("enqueue_many", types=["mail"], payloads=[{}] * amount)
    return db.claim(amount)


def settle(db: Verbs, claim: Row, place: int = 1) -> bool:
    return bool(db.answer("settle", lease_id=claim.lease_id, place=place))


def test_a_settled_run_has_succeeded_with_its_result(db: Verbs) -> None:
    claim = claimed(db, 2)
    answer = db.answer("settle", lease_id=claim.lease_id, place=2, result=Jsonb([1]))
    assert answer is True
    assert [db.status(job_id).status for job_id in claim.job_ids] == ["running", "succeeded"]
    assert db.outcomes(claim.job_ids[1])[0].result == [1]
    assert db.value("select count(*) from hudhud.lease") == 1


@pytest.mark.parametrize("place", [0, -1, 3])
def test_a_place_outside_the_lease_is_lost(db: Verbs, place: int) -> None:
    assert settle(db, claimed(db, 2), place) is False


def test_a_run_is_settled_once(db: Verbs) -> None:
    claim = claimed(db)
    assert settle(db, claim) is True
    assert settle(db, claim) is False


def test_a_run_that_has_ended_otherwise_is_lost(db: Verbs) -> None:
    claim = claimed(db, 2)
    db.finish(claim, closes=False, ends=[end(claim, "retry", 1)])
    assert settle(db, claim) is False


def test_a_lost_lease_is_lost(clocked: Verbs) -> None:
    claim = claimed(clocked)
    clocked.advance(31)
    clocked.answer("rescue")
    assert settle(clocked, claim) is False
    assert clocked.answer("settle", lease_id=uuid.uuid4(), place=1) is False


def test_a_finish_after_a_settled_run_is_content(sessions: Sessions) -> None:
    db = sessions.open()
    claim = claimed(db, 2)
    assert settle(db, claim) is True
    assert db.finish(claim) == (1, [], 0)
    assert [db.status(job_id).status for job_id in claim.job_ids] == ["succeeded"] * 2


def test_a_rollback_of_the_handler_takes_the_success_back(sessions: Sessions) -> None:
    db = sessions.open()
    claim = claimed(db)
    with db.connection.transaction(force_rollback=True):
        assert settle(db, claim) is True
    assert db.status(claim.job_ids[0]).status == "running"
    assert db.end(claim, "retry").settled == 1


def test_no_rescue_takes_a_run_whose_handler_is_committing(sessions: Sessions) -> None:
    handler, rescuer = sessions.open(), sessions.open()
    handler.take_clock()
    claim = claimed(handler)
    handler.advance(3_600)
    rescuer.is_impatient = True
    with handler.connection.transaction():
        assert settle(handler, claim) is True
        assert rescuer.answer("rescue") == (0, 0)
    assert rescuer.answer("rescue") == (0, 0)
    assert handler.status(claim.job_ids[0]).status == "succeeded"


def test_neighbours_in_a_lease_settle_side_by_side(sessions: Sessions) -> None:
    first, second = sessions.open(), sessions.open()
    claim = claimed(first, 2)
    second.is_impatient = True
    with first.connection.transaction():
        assert settle(first, claim, 1) is True
        assert settle(second, claim, 2) is True
        assert second.finish(claim, closes=False) == (0, [], 0)
        renewed = second.answer(
            "renew",
            worker_id="00000000-0000-0000-0000-000000000007",
            leases=[claim.lease_id],
            lease_seconds=60,
        )
        assert renewed == [claim.lease_id]


def test_a_run_that_has_ended_is_lost_at_once_though_a_neighbour_is_committing(
    sessions: Sessions,
) -> None:
    neighbour, late = sessions.open(), sessions.open()
    claim = claimed(neighbour, 2)
    neighbour.finish(claim, closes=False, ends=[end(claim, "fail", 1)])
    late.is_impatient = True
    with neighbour.connection.transaction():
        assert settle(neighbour, claim, 2) is True
        assert settle(late, claim, 1) is False


@pytest.mark.parametrize("does_commit", [True, False])
def test_another_end_of_the_run_waits_for_the_handler(
    sessions: Sessions, *, does_commit: bool
) -> None:
    handler, worker = sessions.open(), sessions.open()
    claim = claimed(handler)
    with worker.connection.transaction():
        with handler.connection.transaction(force_rollback=not does_commit):
            assert settle(handler, claim) is True
            waiting = sessions.start_blocked(
                lambda: worker.end(claim, "retry"), waits=worker, for_=handler
            )
        assert waiting.result(SECONDS).settled == (0 if does_commit else 1)
    expected = "succeeded" if does_commit else "retryable"
    assert worker.status(claim.job_ids[0]).status == expected


def test_a_run_of_a_closed_day_ends_once_although_its_handler_began_before(
    sessions: Sessions,
) -> None:
    handler, worker = sessions.open(), sessions.open()
    claim = claimed(handler)
    with worker.connection.transaction():
        with handler.connection.transaction():
            assert settle(handler, claim) is True
            close_today(sessions.open())
            waiting = sessions.start_blocked(
                lambda: worker.end(claim, "retry"), waits=worker, for_=handler
            )
        assert waiting.result(SECONDS).settled == 0
    assert [run.outcome for run in worker.outcomes(claim.job_ids[0])] == ["succeed"]


def test_a_handler_of_a_closed_day_waits_for_a_finish_that_began_before(
    sessions: Sessions,
) -> None:
    handler, worker = sessions.open(), sessions.open()
    claim = claimed(handler, 2)
    with handler.connection.transaction():
        with worker.connection.transaction():
            assert worker.finish(claim, closes=False, ends=[end(claim, "fail", 1)]).settled == 1
            close_today(sessions.open())
            waiting = sessions.start_blocked(
                lambda: settle(handler, claim), waits=handler, for_=worker
            )
        assert waiting.result(SECONDS) is False
    assert [run.outcome for run in worker.outcomes(claim.job_ids[0])] == ["fail"]


def close_today(db: Verbs) -> None:
    db.value("select hudhud.close_day((clock_timestamp() at time zone 'UTC')::date)")
