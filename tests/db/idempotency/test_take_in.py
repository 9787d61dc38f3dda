"""The consumer's inbox: an event is taken in once, by a transaction that commits."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.sessions import SECONDS
from tests.support.verbs import Verbs

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.server import Server
    from tests.support.sessions import Sessions
    from tests.support.verbs import Value

EVENT = uuid.UUID("0199c0de-0000-7000-8000-0000000000ff")
KEEP_SECONDS = 28 * 86_400


def take_in(
    db: Verbs, event_id: Value = EVENT, consumer: Value = "billing", **options: Value
) -> bool:
    return bool(db.answer("take_in", consumer=consumer, event_id=event_id, **options))


def test_an_event_is_taken_in_once(db: Verbs) -> None:
    assert [take_in(db) for _ in range(3)] == [True, False, False]
    row = db.row("select * from hudhud.idempotency")
    assert (row.tenant_id, row.use, row.type, row.key) == (
        "default",
        "inbox",
        "billing",
        str(EVENT),
    )
    assert row.shard == 255


def test_consumers_events_and_tenants_have_each_their_own(db: Verbs) -> None:
    assert take_in(db)
    assert take_in(db, consumer="mail")
    assert take_in(db, uuid.uuid4())
    assert take_in(db, tenant_id="acme")
    assert not take_in(db, tenant_id="acme")


def test_it_is_remembered_for_28_days_and_then_pruned_in_bounded_steps(clocked: Verbs) -> None:
    events = [uuid.uuid4() for _ in range(30)]
    for event_id in events:
        take_in(clocked, event_id)
    clocked.advance(KEEP_SECONDS - 1)
    assert clocked.answer("prune") == 0
    clocked.advance(1)
    assert not take_in(clocked, events[0])
    assert [clocked.answer("prune", max_rows=20) for _ in range(3)] == [20, 10, 0]
    assert take_in(clocked, events[0])


def test_how_long_is_a_setting(clocked: Verbs) -> None:
    clocked.connection.execute("update hudhud.setting set keep_inbox = '1 hour'")
    take_in(clocked)
    clocked.advance(3_600)
    assert clocked.answer("prune") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"consumer": ""}, "consumer"),
        ({"consumer": "x" * 201}, "consumer"),
        ({"consumer": None}, "consumer"),
        ({"tenant_id": ""}, "tenant_id"),
        ({"tenant_id": None}, "tenant_id"),
        ({"event_id": None}, "event_id"),
    ],
)
def test_what_names_no_event_or_consumer_is_refused(
    db: Verbs, options: dict[str, Value], words: str
) -> None:
    with db.refused("HH001", words):
        take_in(db, **options)
    assert take_in(db, consumer="\u8a9e" * 200, tenant_id="\u8a9e" * 200)


def test_a_role_with_execute_alone_takes_in(server: Server, shared_database: str) -> None:
    """A consumer needs no table."""
    role = f"consumer_{uuid.uuid4().hex}"
    with psycopg.connect(server.admin(shared_database)) as connection:
        for statement in (
            f"create role {role}",
            f"grant usage on schema hudhud to {role}",
            f"grant execute on function hudhud.take_in to {role}",
            f"set local role {role}",
        ):
            connection.execute(statement.encode())
        db = Verbs(connection)
        assert [take_in(db) for _ in range(2)] == [True, False]
        with db.refused("42501"):
            db.rows("select * from hudhud.idempotency")
        connection.rollback()


def test_the_second_waits_and_does_nothing_when_the_first_commits(sessions: Sessions) -> None:
    first, second = sessions.open(), sessions.open()
    with second.connection.transaction():
        with first.connection.transaction():
            assert take_in(first)
            waiting = sessions.start_blocked(lambda: take_in(second), waits=second, for_=first)
        assert waiting.result(SECONDS) is False


def test_the_second_is_the_first_when_the_first_rolls_back(sessions: Sessions) -> None:
    """A loser never trusts a winner that may roll back."""
    first, second = sessions.open(), sessions.open()
    with second.connection.transaction():
        with first.connection.transaction(force_rollback=True):
            assert take_in(first)
            waiting = sessions.start_blocked(lambda: take_in(second), waits=second, for_=first)
        assert waiting.result(SECONDS) is True
    assert not take_in(first)


def test_of_many_at_once_one_takes_it_in(sessions: Sessions) -> None:
    opened = [sessions.open() for _ in range(20)]
    asked = [sessions.start(partial(take_in, db)) for db in opened]
    assert sorted(one.result(SECONDS) for one in asked) == [False] * 19 + [True]


def test_what_follows_from_the_event_is_committed_with_it_or_not_at_all(sessions: Sessions) -> None:
    db = sessions.open()

    def consume(event_id: UUID, *, fails: bool) -> None:
        with db.connection.transaction(force_rollback=fails):
            if take_in(db, event_id):
                db.enqueue("invoice")

    for fails in (True, False, False):
        consume(EVENT, fails=fails)
    assert db.value("select count(*) from hudhud.job") == 1
