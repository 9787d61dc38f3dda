"""renew: prolongs what is still this worker's, and waits for nobody."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.verbs import WORKER

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.sessions import Sessions
    from tests.support.verbs import Row, Verbs


def claimed(db: Verbs) -> Row:
    db.enqueue()
    return db.claim_one()


def renew(db: Verbs, *leases: UUID, worker: UUID = WORKER, seconds: int = 30) -> list[UUID]:
    return list(db.answer("renew", worker_id=worker, leases=list(leases), lease_seconds=seconds))


def test_a_renewed_lease_holds_from_now_by_the_databases_clock(clocked: Verbs) -> None:
    """A04."""
    claim = claimed(clocked)
    clocked.advance(20)
    assert renew(clocked, claim.lease_id, seconds=45) == [claim.lease_id]
    until = clocked.status(claim.job_ids[0]).locked_until
    assert until == clocked.value("select hudhud.clock()") + timedelta(seconds=45)
    clocked.advance(44)
    assert clocked.answer("rescue") == (0, 0)


def test_a_lost_lease_is_missing_from_the_answer(clocked: Verbs) -> None:
    lost = claimed(clocked)
    clocked.advance(31)
    clocked.answer("rescue")
    held = claimed(clocked)
    assert renew(clocked, lost.lease_id, held.lease_id, uuid.uuid4()) == [held.lease_id]


def test_a_finished_lease_is_missing_from_the_answer(db: Verbs) -> None:
    claim = claimed(db)
    db.finish(claim)
    assert renew(db, claim.lease_id) == []


def test_nobody_renews_anothers_lease(clocked: Verbs) -> None:
    """A02: the identity is the process start, not a name."""
    claim = claimed(clocked)
    until = clocked.status(claim.job_ids[0]).locked_until
    assert renew(clocked, claim.lease_id, worker=uuid.UUID(int=8), seconds=90) == []
    assert clocked.status(claim.job_ids[0]).locked_until == until


def test_a_lease_that_ran_out_but_was_not_rescued_is_renewed(clocked: Verbs) -> None:
    claim = claimed(clocked)
    clocked.advance(300)
    assert renew(clocked, claim.lease_id) == [claim.lease_id]
    assert clocked.answer("rescue") == (0, 0)


def test_renewing_nothing_is_no_error(db: Verbs) -> None:
    assert renew(db) == []


@pytest.mark.parametrize("verb", ["finish", "rescue"])
def test_a_renewal_never_waits_and_counts_what_another_decides_as_its_own(
    sessions: Sessions, verb: str
) -> None:
    worker, other = sessions.open(), sessions.open()
    worker.take_clock()
    claim = claimed(worker)
    worker.advance(1)
    free = claimed(worker)
    worker.advance(31)
    worker.is_impatient = True
    with other.connection.transaction():
        if verb == "finish":
            other.finish(claim)
        else:
            other.answer("rescue", max_leases=1)
        renewed = renew(worker, claim.lease_id, free.lease_id)
        assert sorted(renewed) == sorted([claim.lease_id, free.lease_id])
    assert renew(worker, claim.lease_id, free.lease_id) == [free.lease_id]
    assert worker.answer("rescue") == (0, 0)


def test_a_renewal_is_not_kept_from_a_lease_that_a_handler_commits_in(
    sessions: Sessions,
) -> None:
    worker, handler = sessions.open(), sessions.open()
    worker.take_clock()
    claim = claimed(worker)
    with handler.connection.transaction():
        handler.answer("settle", lease_id=claim.lease_id, place=1)
        worker.advance(20)
        renew(worker, claim.lease_id)
        worker.advance(20)
    assert worker.value("select locked_until > hudhud.clock() from hudhud.lease")
