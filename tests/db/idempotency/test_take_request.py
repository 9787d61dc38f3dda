"""The keys of HTTP requests: taken without waiting, kept with the work, lost with it."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.support.sessions import SECONDS

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Row, Value, Verbs

ANSWER = {"status": 202, "headers": {"location": "/v1/jobs/7"}, "body": '{"n": 1}'}
DAY = 86_400


def take(db: Verbs, key: str = "k", /, fingerprint: bytes = b"one", **options: Value) -> Row:
    return db.answer(
        "take_request", **({"tenant_id": "acme", "key": key, "fingerprint": fingerprint} | options)
    )


def keep(db: Verbs, key: str = "k", /, fingerprint: bytes = b"one", **options: Value) -> None:
    request = {"tenant_id": "acme", "key": key, "fingerprint": fingerprint} | options
    db.call("keep_answer", **request, answer=json.dumps(ANSWER))


def kept(db: Verbs) -> list[Any]:
    return db.rows("select tenant_id, key from hudhud.idempotency where use = 'http' order by 1, 2")


def test_a_key_is_new_until_an_answer_is_kept(db: Verbs) -> None:
    assert take(db) == ("new", None)
    assert take(db).state == "new"
    keep(db)
    state, answer = take(db)
    assert (state, json.loads(answer)) == ("answered", ANSWER)


def test_another_request_under_the_same_key_is_told_apart(db: Verbs) -> None:
    keep(db)
    assert take(db, fingerprint=b"two") == ("other", None)
    assert take(db).state == "answered"


def test_a_key_is_one_of_its_tenant_and_of_requests_alone(db: Verbs) -> None:
    keep(db)
    db.enqueue(idempotency_key="of a job", tenant_id="acme")
    assert take(db, tenant_id="other").state == "new"
    assert take(db, "of a job").state == "new"
    assert kept(db) == [("acme", "k")]
    job = db.answer("enqueue", type="mail", payload={}, idempotency_key="k", tenant_id="acme")
    assert job.deduplicated is False


def test_an_answer_is_kept_for_a_day_and_then_the_request_is_new(clocked: Verbs) -> None:
    keep(clocked)
    clocked.advance(DAY - 1)
    assert take(clocked).state == "answered"
    clocked.advance(1)
    assert take(clocked, fingerprint=b"two").state == "new"
    keep(clocked, fingerprint=b"two")
    assert take(clocked, fingerprint=b"two").state == "answered"


def test_how_long_is_a_setting(clocked: Verbs) -> None:
    clocked.connection.execute("update hudhud.setting set keep_answers = '1 hour'")
    keep(clocked)
    clocked.advance(3_600)
    assert take(clocked).state == "new"


def test_kept_answers_are_pruned_in_bounded_steps(clocked: Verbs) -> None:
    for n in range(30):
        keep(clocked, f"k{n}")
    clocked.enqueue(idempotency_key="a job's own")
    clocked.advance(DAY)
    keep(clocked, "young")
    assert [clocked.answer("prune", max_rows=20) for _ in range(3)] == [20, 10, 0]
    assert kept(clocked) == [("acme", "young")]
    assert clocked.value("select count(*) from hudhud.idempotency") == 2


@pytest.mark.parametrize("key", ["", "x" * 501, None])
def test_a_key_of_a_wrong_length_is_refused(db: Verbs, key: str | None) -> None:
    with db.refused("HH001", "1 to 500 characters"):
        db.answer("take_request", tenant_id="acme", key=key, fingerprint=b"one")
    longest = "\u8a9e" * 500
    assert take(db, longest).state == "new"
    keep(db, longest)


def test_a_twin_of_a_request_in_progress_does_not_wait(sessions: Sessions) -> None:
    first, second = sessions.open(), sessions.open()
    second.is_impatient = True
    with first.connection.transaction():
        assert take(first).state == "new"
        assert take(second) == ("in_progress", None)
        assert take(second, fingerprint=b"two").state == "in_progress"
        assert take(second, "another").state == "new"
        assert take(second, tenant_id="other").state == "new"
        keep(first)
        assert take(second).state == "in_progress"
    assert take(second).state == "answered"


def test_a_twin_of_a_request_that_failed_is_new(sessions: Sessions) -> None:
    first, second = sessions.open(), sessions.open()
    with first.connection.transaction(force_rollback=True):
        take(first)
        keep(first)
    assert take(second).state == "new"
    assert kept(second) == []


def test_nothing_is_left_of_a_session_that_dies_before_its_commit(sessions: Sessions) -> None:
    """A88: no row says in progress, so none can say it for ever."""
    first, second = sessions.open(), sessions.open()

    def work() -> None:
        with first.connection.transaction():
            take(first)
            first.enqueue()
            keep(first)
            second.value("select pg_terminate_backend(%s, 10000)", first.pid)
            first.value("select 1")

    with pytest.raises(psycopg.OperationalError):
        work()
    assert take(second).state == "new"
    assert kept(second) == []
    assert second.value("select count(*) from hudhud.job") == 0


def test_an_answer_that_was_kept_before_is_never_written_over(sessions: Sessions) -> None:
    """Whatever isolation hides, the primary key does not, and it undoes this transaction's work."""
    first, second = sessions.open(), sessions.open()

    def work() -> None:
        with second.connection.transaction():
            second.connection.execute("set transaction isolation level repeatable read")
            second.value("select 1")
            with first.connection.transaction():
                take(first)
                keep(first)
            assert take(second).state == "new"
            second.enqueue()
            keep(second)

    with pytest.raises(psycopg.errors.UniqueViolation):
        work()
    assert second.value("select count(*) from hudhud.job") == 0


def test_of_many_at_once_one_does_the_work(sessions: Sessions) -> None:
    opened = [sessions.open() for _ in range(20)]

    def request(db: Verbs) -> str:
        with db.connection.transaction():
            state = str(take(db).state)
            if state == "new":
                db.enqueue()
                keep(db)
        return state

    asked = [sessions.start(partial(request, db)) for db in opened]
    states = [one.result(SECONDS) for one in asked]
    assert states.count("new") == 1
    assert set(states) <= {"new", "in_progress", "answered"}
    assert opened[0].value("select count(*) from hudhud.job") == 1


def test_a_row_has_what_its_use_needs_and_nothing_else(db: Verbs) -> None:
    row = "insert into hudhud.idempotency (tenant_id, use, type, key, shard, created_at"
    wrong = (
        f"{row}) values ('a', 'http', '', 'k', 0, now())",
        f"{row}, fingerprint) values ('a', 'http', '', 'k', 0, now(), 'x')",
        f"{row}) values ('a', 'enqueue', 'mail', 'k', 0, now())",
        f"{row}, answer) values ('a', 'inbox', 'c', 'k', 0, now(), '{{}}')",
        f"{row}, job_id) values ('a', 'inbox', 'c', 'k', 0, now(), gen_random_uuid())",
        f"{row}) values ('a', 'effect', '', 'k', 0, now())",
    )
    for statement in wrong:
        with db.refused("23514"):
            db.rows(statement)
