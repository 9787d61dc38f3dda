"""The hint: one per transaction and queue, none that nobody needs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.server import Server
    from tests.support.sessions import Sessions

Hints: TypeAlias = "Callable[[], list[str]]"


@pytest.fixture
def hints(server: Server, sessions: Sessions) -> Iterator[Hints]:
    """Give a function that returns the hints committed since it was last called."""
    sender = sessions.open()
    with psycopg.connect(server.direct(sessions.dsn), autocommit=True) as connection:
        connection.execute("listen hudhud")

        def heard() -> list[str]:
            sender.connection.execute("notify hudhud, '!end'")
            told: list[str] = []
            for hint in connection.notifies():
                if hint.payload == "!end":
                    break
                told.append(hint.payload)
            return told

        yield heard


def test_an_enqueue_hints_at_its_queue(sessions: Sessions, hints: Hints) -> None:
    sessions.open().enqueue(queue="post")
    assert hints() == ["post"]


def test_a_transaction_hints_once_per_queue(sessions: Sessions, hints: Hints) -> None:
    """A37."""
    db = sessions.open()
    with db.connection.transaction():
        for queue in ("post", "bank") * 5:
            db.enqueue(queue=queue)
        queues = ["post", "bank", "phone"]
        db.call("enqueue_many", types=["mail"], payloads=[{}] * 3, queues=queues)
    assert hints() == ["post", "bank", "phone"]


def test_a_hint_is_at_most_63_bytes_whatever_the_job(sessions: Sessions, hints: Hints) -> None:
    """A37."""
    queue = "ب" * 31
    db = sessions.open()
    db.connection.execute("update hudhud.setting set payload_bytes_max = 1048576")
    db.enqueue(payload={"a": "ژ" * 500_000}, queue=queue, tags=["ب" * 100] * 20)
    (hint,) = hints()
    assert hint == queue
    assert len(hint.encode()) <= 63


def test_nobody_is_told_of_a_queue_that_is_polled_hard(sessions: Sessions, hints: Hints) -> None:
    """A37."""
    db = sessions.open()
    db.call("mark_busy", queue="post", seconds=1)
    db.connection.execute(
        "update hudhud.queue set busy_until = 'infinity' where busy_until > clock_timestamp()"
    )
    db.enqueue(queue="post")
    db.call("enqueue_many", types=["mail"], payloads=[{}], queues=["post"])
    db.enqueue(queue="bank")
    assert hints() == ["bank"]


def test_a_queue_is_hinted_at_again_when_the_mark_is_over(sessions: Sessions, hints: Hints) -> None:
    db = sessions.open()
    db.call("mark_busy", queue="post", seconds=-1)
    db.enqueue(queue="post")
    assert hints() == ["post"]


def test_a_rollback_hints_at_nothing(sessions: Sessions, hints: Hints) -> None:
    """A49."""
    db = sessions.open()
    with db.connection.transaction(force_rollback=True):
        db.enqueue(queue="post")
    with db.connection.transaction():
        db.enqueue(queue="bank")
        with db.connection.transaction(force_rollback=True):
            db.enqueue(queue="phone")
    assert hints() == ["bank"]


@pytest.mark.parametrize(
    "options", [{"delay": timedelta(hours=1)}, {"notify": False}], ids=["scheduled", "unwanted"]
)
def test_what_nobody_can_claim_or_wants_hinted_makes_no_hint(
    sessions: Sessions, hints: Hints, options: dict[str, Any]
) -> None:
    db = sessions.open()
    db.enqueue(**options)
    db.enqueue(idempotency_key="k", **options)
    db.enqueue(idempotency_key="k")
    assert hints() == []


def test_whatever_makes_a_job_claimable_hints(sessions: Sessions, hints: Hints) -> None:
    db = sessions.open()
    db.take_clock()
    job_id = db.enqueue(delay=timedelta(seconds=1))
    db.advance(1)
    db.answer("stage")
    assert hints() == ["default"]
    db.run("retry")
    assert hints() == ["default"]
    db.claim_one()
    db.advance(31)
    db.answer("rescue")
    assert hints() == ["default"]
    db.run("fail")
    assert hints() == []
    db.answer("replay", job_id=job_id, actor="ann", reason="again")
    assert hints() == ["default"]
    later = db.enqueue(delay=timedelta(hours=1))
    db.call("reschedule", job_id=later, available_at=None, actor="ann")
    assert hints() == ["default"]
    db.connection.execute("delete from hudhud.ready")
    db.enqueue(notify=False)
    db.run("hand_back", code="no_handler")
    assert hints() == []
    db.call("announce", types=[{"type": "mail", "version": 1}])
    assert hints() == ["default"]


@pytest.mark.parametrize("seconds", [1, 3_600])
def test_a_queue_is_marked_busy_for_a_second_at_most(sessions: Sessions, seconds: int) -> None:
    db = sessions.open()
    with db.connection.transaction():
        db.call("mark_busy", queue="post", seconds=seconds)
        assert db.value("select busy_until <= clock_timestamp() + interval '1 s' from hudhud.queue")
        assert db.value("select busy_until > now() from hudhud.queue")
