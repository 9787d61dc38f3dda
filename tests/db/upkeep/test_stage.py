"""stage: what is due becomes claimable, once, in bounded steps."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.sessions import SECONDS
from tests.support.verbs import WORKER

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.sessions import Sessions
    from tests.support.verbs import Verbs


def later(db: Verbs, *seconds: float, tenant_id: str = "default") -> list[UUID]:
    delays = [timedelta(seconds=one) for one in seconds]
    arrays = {"types": ["mail"], "payloads": [{}] * len(delays), "tenant_ids": [tenant_id]}
    row = db.answer("enqueue_many", delays=delays, **arrays)
    return row.ids  # type: ignore[no-any-return]


def test_nobody_claims_a_job_before_its_time(clocked: Verbs) -> None:
    """A05: a delay is no lease: the job is in nobody's hands while it waits."""
    (job_id,) = later(clocked, 300)
    for _ in range(10):
        clocked.advance(29)
        assert clocked.answer("stage") == 0
        assert clocked.answer("rescue") == (0, 0)
        assert clocked.claim() is None
    clocked.advance(10)
    assert clocked.answer("stage") == 1
    assert clocked.claim_one().job_ids == [job_id]
    assert clocked.answer("stage") == 0
    assert clocked.claim() is None
    assert clocked.outcomes(job_id) == []


def test_a_job_is_due_at_its_instant_by_the_databases_clock(clocked: Verbs) -> None:
    """A04."""
    (job_id,) = later(clocked, 60)
    clocked.advance(59.999)
    assert clocked.answer("stage") == 0
    clocked.advance(0.001)
    assert clocked.answer("stage") == 1
    assert clocked.status(job_id).waiting_for is None


def test_the_earliest_are_moved_first_and_at_most_as_many_as_asked(clocked: Verbs) -> None:
    ids = later(clocked, 5, 3, 1, 4, 2)
    clocked.advance(5)
    assert clocked.answer("stage", max_jobs=2) == 2
    in_line = clocked.values("select job_id from hudhud.ready order by seq")
    assert in_line == [ids[2], ids[4]]
    assert clocked.answer("stage", max_jobs=2) == 2
    assert clocked.answer("stage", max_jobs=2) == 1
    in_line = clocked.values("select job_id from hudhud.ready order by seq")
    assert in_line == [ids[n] for n in (2, 4, 1, 3, 0)]


def test_a_first_run_joins_the_first_runs_and_a_later_one_those_that_come_back(
    clocked: Verbs,
) -> None:
    (first,) = later(clocked, 1)
    clocked.advance(1)
    clocked.answer("stage")
    assert clocked.values("select line from hudhud.ready") == [2]
    clocked.run("retry", delay_seconds=1)
    clocked.advance(1)
    clocked.answer("stage")
    row = clocked.row("select line, run, attempt from hudhud.ready where job_id = %s", first)
    assert (row.line, row.run, row.attempt) == (1, 2, 1)


def test_a_range_that_only_had_scheduled_jobs_becomes_known(clocked: Verbs) -> None:
    later(clocked, 1, tenant_id="acme")
    assert clocked.ranges().tenants == []
    clocked.advance(1)
    clocked.answer("stage")
    assert clocked.ranges().tenants == ["acme"]


def test_stagers_at_once_share_the_work_and_wait_for_nobody(sessions: Sessions) -> None:
    """A42."""
    db, other = sessions.open(), sessions.open()
    db.take_clock()
    later(db, *[1] * 10)
    db.advance(10)
    other.is_impatient = True
    with db.connection.transaction():
        assert db.answer("stage", max_jobs=6) == 6
        assert other.answer("stage", max_jobs=6) == 4
    assert other.answer("stage") == 0
    assert db.value("select count(distinct job_id) from hudhud.ready") == 10


def test_many_stagers_move_each_job_once(sessions: Sessions) -> None:
    db = sessions.open()
    db.take_clock()
    later(db, *range(1, 501))
    db.advance(500)

    def stage_all() -> int:
        stager, moved = sessions.open(), 0
        while step := stager.answer("stage", max_jobs=20):
            moved += step
        return moved

    asked = [sessions.start(stage_all) for _ in range(4)]
    assert sum(answer.result(SECONDS) for answer in asked) == 500
    assert db.value("select count(distinct job_id) from hudhud.ready") == 500


def hold(db: Verbs, version: int = 1) -> UUID:
    db.enqueue("mail", version=version)
    return db.run("hand_back", code="no_handler")


def register(db: Verbs, *contracts: str) -> None:
    db.call(
        "register_worker",
        worker_id=WORKER,
        name="w",
        host="h",
        pid=1,
        queues=["default"],
        contracts=list(contracts),
        release="1",
    )


def test_a_held_job_is_freed_for_a_worker_that_can_run_it(clocked: Verbs) -> None:
    freed, kept = hold(clocked, 1), hold(clocked, 2)
    clocked.advance(6)
    assert clocked.answer("stage") == 0
    register(clocked, "mail:1", "sms:2")
    assert clocked.answer("stage") == 1
    assert (clocked.place(freed), clocked.place(kept)) == ("ready", "waiting")
    claim = clocked.claim_one()
    assert (claim.runs, claim.attempts) == ([2], [1])


@pytest.mark.parametrize(("held", "silent", "moved"), [(4, 0, 0), (6, 0, 1), (40, 31, 0)])
def test_a_held_job_waits_a_moment_and_for_a_worker_that_lives(
    clocked: Verbs, *, held: float, silent: float, moved: int
) -> None:
    """Else a job that its only worker just handed back would go round and round."""
    hold(clocked)
    clocked.advance(held - silent)
    register(clocked, "mail:1")
    clocked.advance(silent)
    assert clocked.answer("stage") == moved
