"""What a worker process says: register_worker, beat, leave, mark_busy, and how a session ends."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.verbs import WORKER

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Verbs


def register(db: Verbs) -> None:
    db.call(
        "register_worker",
        worker_id=WORKER,
        name="w1",
        host="host",
        pid=42,
        queues=["default", "post"],
        contracts=["mail:1"],
        release="0.1",
    )


def test_a_worker_is_known_by_what_it_said(clocked: Verbs) -> None:
    register(clocked)
    row = clocked.row("select * from hudhud.worker")
    assert (row.id, row.name, row.host, row.pid, row.release) == (WORKER, "w1", "host", 42, "0.1")
    assert (row.queues, row.contracts) == (["default", "post"], ["mail:1"])
    assert row.started_at == row.seen_at == clocked.value("select hudhud.clock()")


def test_a_process_registers_once(db: Verbs) -> None:
    """A02: an identity is one process start."""
    register(db)
    with db.refused("23505"):
        register(db)


def test_a_beat_says_that_the_process_lives(clocked: Verbs) -> None:
    """A04."""
    register(clocked)
    clocked.advance(10)
    assert clocked.answer("beat", worker_id=WORKER) == ([], [])
    row = clocked.row("select * from hudhud.worker")
    assert row.seen_at == clocked.value("select hudhud.clock()")
    assert (row.seen_at - row.started_at).total_seconds() == 10


def test_a_beat_of_nobody_is_no_error(db: Verbs) -> None:
    assert db.answer("beat", worker_id=uuid.uuid4()) == ([], [])
    assert db.value("select count(*) from hudhud.worker") == 0


def test_a_beat_tells_a_worker_of_its_own_runs_alone(db: Verbs) -> None:
    other = uuid.UUID(int=8)
    db.call("enqueue_many", types=["mail"], payloads=[{}] * 3)
    mine, theirs = db.claim(2), db.claim(1, worker_id=other)
    for job_id in (*mine.job_ids, *theirs.job_ids):
        db.answer("cancel", job_id=job_id, actor="ann")
    told = db.answer("beat", worker_id=WORKER)
    assert sorted(zip(told.job_ids, told.runs, strict=True)) == [
        (job_id, 1) for job_id in sorted(mine.job_ids)
    ]
    assert db.answer("beat", worker_id=other) == (theirs.job_ids, [1])


def test_a_worker_that_leaves_is_known_no_more(db: Verbs) -> None:
    register(db)
    db.call("leave", worker_id=WORKER)
    assert db.value("select count(*) from hudhud.worker") == 0
    db.call("leave", worker_id=WORKER)


def test_a_session_of_the_same_role_can_be_ended(sessions: Sessions) -> None:
    worker, handler = sessions.open(), sessions.open()
    with pytest.raises(psycopg.OperationalError), handler.connection.transaction():  # noqa: PT012
        assert worker.answer("end_session", server_pid=handler.pid) is True
        handler.pid  # noqa: B018


def test_the_transaction_of_one_run_can_be_ended_and_only_while_it_lasts(
    sessions: Sessions,
) -> None:
    worker, handler, other = sessions.open(), sessions.open(), sessions.open()
    for _ in range(2):
        worker.enqueue()
    claim = worker.claim()
    places = [{"lease_id": claim.lease_id, "place": place} for place in (1, 2)]
    assert worker.answer("end_transaction", **places[0]) == 0
    with other.connection.transaction(force_rollback=True):
        other.answer("settle", **places[1])
        with pytest.raises(psycopg.OperationalError), handler.connection.transaction():  # noqa: PT012
            handler.answer("settle", **places[0])
            assert worker.answer("end_transaction", **places[0]) == 1
            handler.pid  # noqa: B018
        assert other.value("select 1") == 1
    # Its session goes on to other work under its own name.
    assert worker.answer("end_transaction", **places[1]) == 0
