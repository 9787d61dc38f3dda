"""How events go: by the day, when they have been kept long enough and nobody needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.events import (
    NAME,
    TYPE,
    due,
    make_day,
    numbers,
    publish,
    publish_on,
    relay_all,
    subscribe,
)

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Verbs

OLD = 10
"""Days ago: more than events are kept."""


@pytest.fixture
def db(own: Sessions) -> Verbs:
    """Give a session on a database of its own, with a day of events that have been kept enough."""
    db = own.open()
    make_day(db, OLD)
    return db


def released(db: Verbs, days_ago: int = OLD) -> tuple[list[str], list[str]]:
    row = db.row(
        "select * from hudhud.release_event_day("
        " (clock_timestamp() at time zone 'UTC')::date - %s::integer)",
        days_ago,
    )
    return row.holders, row.losers


def skipped(db: Verbs) -> int:
    return int(db.value("select skipped from hudhud.subscription"))


def test_the_oldest_day_that_was_kept_long_enough_is_to_go(db: Verbs) -> None:
    def days_ago() -> int:
        return int(
            db.value(
                "select (clock_timestamp() at time zone 'UTC')::date - hudhud.event_day_to_drop()"
            )
        )

    assert days_ago() == OLD
    make_day(db, OLD + 5)
    assert days_ago() == OLD + 5
    db.connection.execute("update hudhud.setting set keep_events = '30 days'")
    assert db.answer("event_day_to_drop") is None


def test_yesterday_and_today_never_go(db: Verbs) -> None:
    db.take_clock()
    db.advance(14 * 86_400)
    db.connection.execute("update hudhud.setting set keep_events = '1 day'")
    days = db.values(
        "select (clock_timestamp() at time zone 'UTC')::date - hudhud.event_day_to_drop()"
    )
    assert days == [OLD]
    db.give_clock_back()
    with pytest.raises(psycopg.errors.CheckViolation):
        db.connection.execute("update hudhud.setting set keep_events = '1 hour'")


def test_a_day_is_free_when_every_subscription_has_had_it(db: Verbs) -> None:
    subscribe(db)
    subscribe(db, "other", "other.type")
    publish_on(db, OLD, 1)
    assert released(db) == ([NAME], [])
    relay_all(db)
    assert released(db) == ([], [])
    subscribe(db, "late")
    assert released(db) == ([], [])


def test_a_subscription_in_the_middle_of_a_step_needs_what_is_left_of_it(db: Verbs) -> None:
    subscribe(db)
    for n in range(3):
        publish_on(db, OLD, n)
    db.answer("relay", subscription=NAME, max_events=2)
    assert released(db) == ([NAME], [])
    db.answer("relay", subscription=NAME, max_events=2)
    assert released(db) == ([], [])


def test_a_paused_subscription_keeps_its_events_and_a_stopped_one_does_not(db: Verbs) -> None:
    subscribe(db)
    publish_on(db, OLD, 1)
    db.answer("change_subscription", subscription=NAME, state="paused", actor="ann")
    assert (due(db), released(db)) == ([], ([NAME], []))
    db.answer("change_subscription", subscription=NAME, state="stopped", actor="ann")
    assert (due(db), released(db)) == ([], ([], [NAME]))
    assert released(db) == ([], [NAME])
    assert skipped(db) == 1


def test_a_subscription_that_nobody_announces_any_more_keeps_nothing(db: Verbs) -> None:
    subscribe(db)
    publish_on(db, OLD, 1)
    publish_on(db, OLD, 2)
    db.connection.execute(
        "update hudhud.subscription set seen_at = clock_timestamp() - interval '4 days'"
    )
    assert db.answer("silent_subscriptions") == [NAME]
    assert (due(db), relay_all(db)) == ([], 0)
    assert released(db) == ([], [NAME])
    assert skipped(db) == 2


def test_a_paused_subscription_keeps_its_events_though_nobody_announces_it(db: Verbs) -> None:
    subscribe(db)
    publish_on(db, OLD, 1)
    db.answer("change_subscription", subscription=NAME, state="paused", actor="ann")
    db.connection.execute(
        "update hudhud.subscription set seen_at = clock_timestamp() - interval '9 days'"
    )
    assert released(db) == ([NAME], [])
    assert db.answer("silent_subscriptions") == []


@pytest.mark.parametrize("hours", [0, 96])
def test_time_in_which_no_worker_was_there_at_all_makes_nobody_silent(
    db: Verbs, hours: int
) -> None:
    """An outage, or the age of a dump: who starts first takes nothing from those that follow."""
    subscribe(db)
    subscribe(db, "other", "other.type")
    publish_on(db, OLD, 1)
    db.connection.execute(
        "update hudhud.subscription set seen_at = clock_timestamp() - interval '4 days'"
    )
    db.connection.execute(
        "update hudhud.relay_state set watched_at = clock_timestamp() - make_interval(hours => %s)",
        (hours,),
    )
    subscribe(db, "other", "other.type")
    assert db.answer("silent_subscriptions") == ([] if hours else [NAME])
    assert released(db) == (([NAME], []) if hours else ([], [NAME]))


def test_a_subscription_that_is_back_in_time_gets_all_it_missed(db: Verbs) -> None:
    subscribe(db)
    publish(db, 1)
    db.connection.execute(
        "update hudhud.subscription set seen_at = clock_timestamp() - interval '4 days'"
    )
    publish(db, 2)
    assert relay_all(db) == 0
    subscribe(db)
    assert db.answer("silent_subscriptions") == []
    assert relay_all(db) == 2


def test_a_worker_that_is_there_keeps_its_subscriptions_from_going_silent(db: Verbs) -> None:
    subscribe(db)
    subscribe(db, "other")
    db.connection.execute(
        "update hudhud.subscription set seen_at = clock_timestamp() - interval '4 days'"
    )
    db.call("see_subscriptions", names=[NAME, "unknown"])
    assert db.answer("silent_subscriptions") == ["other"]


def test_a_day_that_somebody_still_writes_into_stays(db: Verbs, own: Sessions) -> None:
    slow = own.open()
    with slow.connection.transaction():
        publish_on(slow, OLD, 1)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            released(db)
    subscribe(db, start="beginning")
    assert released(db) == ([NAME], [])


def test_who_is_in_another_epoch_needs_what_is_in_that_one(db: Verbs) -> None:
    subscribe(db)
    publish_on(db, OLD, 1)
    db.connection.execute("update hudhud.database_epoch set identity = '7:7'")
    publish(db, 2)
    db.answer("rebase", actor="ann", reason="restored")
    assert released(db) == ([NAME], [])
    relay_all(db)
    assert released(db) == ([], [])
    assert numbers(db) == [1, 2]


def test_a_subscription_is_paused_resumed_and_stopped_with_an_audit(db: Verbs) -> None:
    subscribe(db)
    for state, before in (("paused", "active"), ("active", "paused"), ("stopped", "active")):
        asked = {"subscription": NAME, "state": state, "actor": "ann", "reason": "a test"}
        assert db.answer("change_subscription", **asked) == before
    lines = db.rows("select action, subject, actor, reason, detail from hudhud.audit order by id")
    assert [line.action for line in lines] == [
        "subscription.paused",
        "subscription.active",
        "subscription.stopped",
    ]
    assert lines[0][1:] == (NAME, "ann", "a test", {"before": "active"})
    with db.refused("HH011", "no subscription"):
        db.answer("change_subscription", subscription="none", state="paused", actor="ann")
    with db.refused("HH011", "stopped"):
        db.answer("change_subscription", subscription=NAME, state="gone", actor="ann")
    with db.refused("HH001", "actor"):
        db.answer("change_subscription", subscription=NAME, state="active", actor="")


def test_after_a_pause_nothing_more_is_routed(db: Verbs, own: Sessions) -> None:
    """It waits for the relay that is at work."""
    subscribe(db)
    publish(db, 1)
    busy, operator = own.open(), own.open()
    busy.connection.execute("begin")
    busy.answer("relay", subscription=NAME)
    operator.connection.execute("begin")
    pause = own.start_blocked(
        lambda: operator.answer(
            "change_subscription", subscription=NAME, state="paused", actor="ann"
        ),
        waits=operator,
        for_=busy,
    )
    busy.connection.execute("commit")
    assert pause.result(60) == "active"
    operator.connection.execute("commit")
    publish(db, 2)
    assert (relay_all(db), db.answer("relay", subscription=NAME)) == (0, (0, False))
    assert numbers(db) == [1]


def test_a_subscription_keeps_the_type_of_its_events(db: Verbs) -> None:
    subscribe(db)
    with db.refused("HH011", NAME, TYPE, "another name"):
        subscribe(db, event_type="order.gone")
    for options, word in (({"start": "soon"}, "start"), ({"lane": "urgent"}, "lane")):
        with db.refused("HH011", word):
            subscribe(db, "other", **options)
