"""Who holds events up is named: the session, what it calls itself, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.events import NAME, publish, subscribe

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Verbs


@pytest.fixture
def db(sessions: Sessions) -> Verbs:
    db = sessions.open()
    subscribe(db)
    return db


def stalls(db: Verbs, seconds: float = 0) -> list[Any]:
    return db.call("relay_stalls", stall_seconds=seconds)


def test_a_session_that_published_and_does_not_end_is_named(db: Verbs, sessions: Sessions) -> None:
    slow = sessions.open()
    with slow.connection.transaction():
        slow.connection.execute("set local application_name = 'an import'")
        publish(slow)
        (stall,) = stalls(db)
        assert (stall.kind, stall.subscription, stall.pid) == ("publisher", None, slow.pid)
        assert (stall.application, stall.state) == ("an import", "idle in transaction")
        assert stall.role == db.value("select current_user")
        assert stall.since == slow.value("select transaction_timestamp()")
        assert stalls(db, 3_600) == []
    assert stalls(db) == []


def test_a_session_that_holds_a_subscription_is_named(db: Verbs, sessions: Sessions) -> None:
    holder = sessions.open()
    with holder.connection.transaction():
        holder.rows("select from hudhud.subscription where name = %s for no key update", NAME)
        (stall,) = stalls(db)
        assert (stall.kind, stall.subscription, stall.pid) == ("subscription", NAME, holder.pid)
    assert stalls(db) == []


def test_a_transaction_that_has_nothing_to_do_with_events_is_nobodys_business(
    db: Verbs, sessions: Sessions
) -> None:
    foreign = sessions.open()
    with foreign.connection.transaction():
        foreign.enqueue()
        foreign.value("select count(*) from hudhud.event")
        assert stalls(db) == []


def test_a_prepared_transaction_is_named(own: Sessions) -> None:
    db = own.open()
    db.connection.execute("begin")
    publish(db, notify=False)
    db.connection.execute("prepare transaction 'a forgotten one'")
    found = stalls(own.open())
    db.connection.execute("rollback prepared 'a forgotten one'")
    (stall,) = found
    assert (stall.kind, stall.pid, stall.application) == ("publisher", None, "a forgotten one")
