"""A restored copy of a database: it routes nothing until told to, then skips and repeats nothing.

A copy is made by what is different in one: the identity that is stored is another server's, and so
are the transaction ids in cursors and events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.events import (
    NAME,
    cursor,
    due,
    numbers,
    publish,
    relay,
    relay_all,
    subscribe,
)

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Verbs

FAR = 10**12
"""A server whose transactions count far ahead of ours."""

_MOVED = """
update hudhud.subscription_cursor set SNAPSHOT = (
    select concat_ws(':',
        pg_snapshot_xmin(SNAPSHOT)::text::bigint + %(by)s,
        pg_snapshot_xmax(SNAPSHOT)::text::bigint + %(by)s,
        (select coalesce(string_agg((x::text::bigint + %(by)s)::text, ',' order by x), '')
         from pg_snapshot_xip(SNAPSHOT) x))::pg_snapshot)
where SNAPSHOT is not null and pg_snapshot_xmax(SNAPSHOT)::text::bigint > 3
"""


@pytest.fixture
def db(sessions: Sessions) -> Verbs:
    """Give a session that commits, with one subscription that has routed event 1."""
    db = sessions.open()
    subscribe(db)
    publish(db, 1)
    assert relay_all(db) == 1
    return db


def become_copy(db: Verbs, *, ahead: int = 0) -> None:
    """Let the database look as if it had been restored from another server's dump."""
    db.connection.execute("update hudhud.database_epoch set identity = '7:7'")
    db.connection.execute(
        "update hudhud.event set xid = (xid::text::bigint + %s)::text::xid8", [ahead]
    )
    for snapshot in ("from_snapshot", "to_snapshot"):
        db.connection.execute(_MOVED.replace("SNAPSHOT", snapshot).encode(), {"by": ahead})


@pytest.mark.parametrize("ahead", [0, FAR])
def test_a_copy_routes_nothing_until_rebased_and_then_exactly_what_was_left(
    db: Verbs, ahead: int
) -> None:
    publish(db, 2)
    become_copy(db, ahead=ahead)
    for verb in (due, relay):
        with db.refused("HH010", "7:7", "rebase"):
            verb(db)
    assert db.answer("rebase", actor="ann", reason="restored after the fire") == 1
    publish(db, 3)
    relay_all(db)
    assert numbers(db) == [1, 2, 3]
    assert (due(db), cursor(db).epoch) == ([], 1)


@pytest.mark.parametrize("ahead", [0, FAR])
def test_what_a_copy_publishes_before_the_rebase_is_routed_after_it(db: Verbs, ahead: int) -> None:
    publish(db, 2)
    become_copy(db, ahead=ahead)
    publish(db, 3)
    db.answer("rebase", actor="ann", reason="restored")
    publish(db, 4)
    relay_all(db)
    assert numbers(db) == [1, 2, 3, 4]


def test_a_transaction_that_publishes_across_the_rebase_is_routed(
    db: Verbs, sessions: Sessions
) -> None:
    become_copy(db, ahead=FAR)
    slow = sessions.open()
    slow.connection.execute("begin isolation level repeatable read")
    publish(slow, 2)
    db.answer("rebase", actor="ann", reason="restored")
    relay_all(db)
    publish(slow, 3)
    publish(db, 4)
    relay_all(db)
    slow.connection.execute("commit")
    relay_all(db)
    assert sorted(numbers(db)) == [1, 2, 3, 4]


def test_a_step_that_was_under_way_when_it_was_copied_is_finished(db: Verbs) -> None:
    for n in range(2, 7):
        publish(db, n)
    relay(db, max_events=2)
    publish(db, 7)
    become_copy(db, ahead=FAR)
    db.answer("rebase", actor="ann", reason="restored")
    publish(db, 8)
    relay_all(db, max_events=2)
    assert numbers(db) == list(range(1, 9))


def test_an_event_that_was_open_when_it_was_copied_is_not_looked_for_for_ever(
    db: Verbs, sessions: Sessions
) -> None:
    slow = sessions.open()
    with slow.connection.transaction(force_rollback=True):
        publish(slow, 99)
        publish(db, 2)
        relay_all(db)
    become_copy(db, ahead=FAR)
    db.answer("rebase", actor="ann", reason="restored")
    publish(db, 3)
    relay_all(db)
    assert (numbers(db), due(db)) == ([1, 2, 3], [])


def test_a_subscription_that_begins_in_a_copy_gets_what_comes_from_then_on(db: Verbs) -> None:
    become_copy(db, ahead=FAR)
    publish(db, 2)
    subscribe(db, "late")
    subscribe(db, "all", start="beginning")
    publish(db, 3)
    db.answer("rebase", actor="ann", reason="restored")
    publish(db, 4)
    for name in ("late", "all", NAME):
        relay_all(db, name)
    assert numbers(db, "late") == [3, 4]
    assert numbers(db, "all") == numbers(db) == [1, 2, 3, 4]


def test_a_copy_of_a_copy(db: Verbs) -> None:
    publish(db, 2)
    become_copy(db, ahead=FAR)
    db.answer("rebase", actor="ann", reason="restored")
    publish(db, 3)
    become_copy(db, ahead=FAR)
    publish(db, 4)
    assert db.answer("rebase", actor="ann", reason="restored again") == 2
    publish(db, 5)
    relay_all(db)
    assert numbers(db) == [1, 2, 3, 4, 5]


def test_a_copy_that_was_never_relayed_is_known_by_its_transactions(db: Verbs) -> None:
    """Nothing had written down whose it was; nothing that is ahead is routed for all that."""
    publish(db, 2)
    become_copy(db, ahead=FAR)
    db.connection.execute("update hudhud.database_epoch set identity = null")
    with db.refused("HH010", "ahead"):
        relay(db)
    assert db.answer("rebase", actor="ann", reason="restored") == 1
    publish(db, 3)
    relay_all(db)
    assert numbers(db) == [1, 2, 3]


def test_what_is_no_copy_is_not_rebased(db: Verbs) -> None:
    with db.refused("HH007", "no copy"):
        db.answer("rebase", actor="ann", reason="to be sure")
    become_copy(db)
    with db.refused("HH001", "reason"):
        db.answer("rebase", actor="ann", reason=" ")
    with db.refused("HH001", "actor"):
        db.answer("rebase", actor="", reason="restored")
    db.answer("rebase", actor="ann", reason="restored")
    (line,) = db.rows("select * from hudhud.audit where action = 'events.rebase'")
    assert (line.actor, line.reason, line.detail) == (
        "ann",
        "restored",
        {"epoch": 1, "copy_of": "7:7"},
    )


def test_a_database_takes_note_of_itself_with_the_first_event_that_is_routed(
    sessions: Sessions,
) -> None:
    db = sessions.open()
    assert db.value("select identity from hudhud.database_epoch") is None
    subscribe(db)
    publish(db, 1)
    relay_all(db)
    assert db.value("select identity = hudhud.database_identity() from hudhud.database_epoch")


def test_a_sequence_that_was_set_back_routes_nothing_until_rebased(db: Verbs) -> None:
    """Or what is published below the cursor's bound would never be looked for."""
    for n in (2, 3):
        publish(db, n)
        assert relay_all(db) == 1
    db.value("select setval('hudhud.event_position', 1)")
    publish(db, 4)
    with db.refused("HH010", "ahead", "rebase"):
        relay(db)
    db.answer("rebase", actor="ann", reason="the sequence was set back")
    relay_all(db)
    assert numbers(db) == [1, 2, 3, 4]
