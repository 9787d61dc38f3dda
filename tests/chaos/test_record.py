"""The record on a real database: each lease and each outcome is noted with the verb that did it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.chaos import query, record
from bench.chaos.task import PLAIN, Task
from hudhud.domain.job import Outcome
from hudhud.store import jobs, runs, upkeep
from tests.support.claiming import Claiming

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT_OVER = 0  # seconds of a lease that may be taken back at once


@pytest.fixture
def worker(database: str) -> Iterator[Claiming]:
    """Give a worker by hand, in a database with the record installed."""
    query.install(database)
    worker = Claiming(database)
    yield worker
    worker.close()


def noted(database: str) -> list[tuple[str, str, str | None]]:
    return [(one.what, one.verb, one.outcome) for one in record.read(database).entries]


def test_a_claim_that_succeeds_as_a_whole(database: str, worker: Claiming) -> None:
    worker.enqueue(2)
    claimed = worker.claim(2)
    worker.run(runs.finish([], [], whole=[claimed.lease_id]))
    assert sorted(noted(database)) == [
        ("ended", "finish", "succeed"),
        ("ended", "finish", "succeed"),
        ("gone", "finish", None),
        ("taken", "claim", None),
    ]
    taken, *rest = record.read(database).entries
    assert (taken.lease_id, list(taken.job_ids)) == (claimed.lease_id, list(claimed.job_ids))
    assert {entry.xid for entry in rest} != {taken.xid}
    assert len({entry.xid for entry in rest}) == 1


def test_a_retry_a_handlers_own_transaction_and_a_rescue(database: str, worker: Claiming) -> None:
    worker.enqueue(3)
    lease_id = worker.claim(3, lease_seconds=WAIT_OVER).lease_id
    again = runs.Settlement(lease_id, 1, Outcome.RETRY, delay_seconds=60)
    worker.run(runs.finish([lease_id], [False], settlements=[again]))
    assert worker.run(runs.settle(lease_id, 2))
    worker.run(upkeep.rescue(10))
    assert noted(database) == [
        ("taken", "claim", None),
        ("ended", "finish", "retry"),
        ("ended", "settle", "succeed"),
        ("gone", "rescue", None),
        ("ended", "rescue", "lost"),
    ]


def test_what_was_rolled_back_is_not_noted(database: str, worker: Claiming) -> None:
    worker.enqueue()
    lease_id = worker.claim().lease_id
    with worker.connection.transaction(force_rollback=True):
        assert worker.run(runs.settle(lease_id, 1))
    assert noted(database) == [("taken", "claim", None)]


def test_the_jobs_of_the_load_and_what_is_left_of_them(database: str, worker: Claiming) -> None:
    task = Task(number=7, snoozes=1)
    made = worker.run(jobs.enqueue(task.job(PLAIN, delay_seconds=60)))
    worker.enqueue()  # of somebody else
    found = record.read(database)
    assert [(job.id, job.type, job.task) for job in found.jobs] == [(made.id, PLAIN, task)]
    assert {name: rows for name, rows in found.left_over.items() if rows} == {
        "ready": 1,
        "scheduled": 1,
    }


def test_work_is_held_by_a_lease_with_a_run_that_has_not_ended(
    database: str, worker: Claiming
) -> None:
    def holds_work() -> bool:
        return query.finds(database, "holds_work", worker_id=worker.worker_id)

    worker.enqueue(2)
    assert not holds_work()
    lease_id = worker.claim(2).lease_id
    assert holds_work()
    assert worker.run(runs.settle(lease_id, 1))
    assert holds_work()
    assert worker.run(runs.settle(lease_id, 2))
    assert not holds_work()  # the lease is there, and nothing in it
