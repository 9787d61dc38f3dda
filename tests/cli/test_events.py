"""`hudhud events`, and what the doctor says about them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.support.events import NAME, TYPE, declare, numbers, publish, relay, relay_all, subscribe
from tests.support.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Said

    Hudhud = Callable[..., Said]

AHEAD = "update hudhud.subscription set seen_at = seen_at - interval '4 days'"


@pytest.fixture(autouse=True)
def _subscribed(verbs: Verbs) -> None:
    subscribe(verbs)


def told(hudhud: Hudhud) -> list[tuple[str, str]]:
    """Return what the doctor says about events."""
    found = hudhud("doctor", "--json").document["findings"]
    return [(one["verdict"], one["detail"]) for one in found if one["subject"] == "events"]


def line(hudhud: Hudhud) -> dict[str, Any]:
    (found,) = hudhud("events", "subscriptions", "--json").lines
    return found


def test_events_are_listed_newest_first_and_by_what_they_are_about(
    hudhud: Hudhud, verbs: Verbs
) -> None:
    about = {"aggregate_type": "order", "aggregate_id": "A"}
    first = publish(verbs, 1, **about)
    second = publish(verbs, 2, "order.gone", tenant_id="acme", correlation_id="request-1")
    assert [one["id"] for one in hudhud("events", "list", "--json").lines] == [
        str(second.id),
        str(first.id),
    ]
    for words, wanted in (
        (("--type", TYPE), first),
        (("--aggregate", "order", "A"), first),
        (("--tenant", "acme"), second),
        (("--correlation", "request-1"), second),
        (("--limit", "1"), second),
        (("--after", str(second.id)), first),
    ):
        (found,) = hudhud("events", "list", "--json", *words).lines
        assert found["id"] == str(wanted.id), words
    assert "order A" in hudhud("events", "list").out


def test_one_event_is_shown_with_how_far_it_has_come(hudhud: Hudhud, verbs: Verbs) -> None:
    early = publish(verbs, 1)
    subscribe(verbs, "late")
    event = publish(verbs, 2)
    shown = hudhud("events", "show", str(event.id), "--json").document
    assert (shown["payload"], shown["jobs"]) == ({"n": 2}, [])
    assert [one["route"] for one in shown["routes"]] == ["waiting", "waiting"]
    relay(verbs)
    shown = hudhud("events", "show", str(event.id), "--json").document
    assert [(one["subscription"], one["route"]) for one in shown["routes"]] == [
        ("late", "waiting"),
        (NAME, "routed"),
    ]
    assert [(one["type"], one["status"]) for one in shown["jobs"]] == [(NAME, "pending")]
    shown = hudhud("events", "show", str(early.id), "--json").document
    # A cursor that begins after an event has it behind it.
    assert [one["route"] for one in shown["routes"]] == ["routed", "routed"]


def test_a_long_step_shows_what_of_it_is_routed(hudhud: Hudhud, verbs: Verbs) -> None:
    found = [publish(verbs, n) for n in range(3)]
    relay(verbs, max_events=2)
    routes = [
        hudhud("events", "show", str(one.id), "--json").document["routes"][0]["route"]
        for one in found
    ]
    assert routes == ["routed", "routed", "waiting"]
    assert (line(hudhud)["waiting"], line(hudhud)["routed"]) == (1, 2)


def test_personal_fields_are_not_shown_in_passing(hudhud: Hudhud, verbs: Verbs) -> None:
    schema = {"required": {"n": "integer"}, "optional": {"email": "string"}}
    declare(verbs, schema=schema, personal=["email"], need="a test")
    payload = {"n": 1, "email": "a@example.org"}
    event = verbs.answer("publish", type=TYPE, payload=payload)
    words = ("events", "show", str(event.id), "--json")
    assert hudhud(*words).document["payload"] == {"n": 1, "email": "(personal)"}
    assert hudhud(*words, "--personal").document["payload"] == payload
    assert relay_all(verbs) == 1
    job = verbs.value("select id from hudhud.job")
    words = ("jobs", "show", str(job), "--json")
    assert hudhud(*words).document["payload"]["event"]["payload"] == payload | {
        "email": "(personal)"
    }
    assert hudhud(*words, "--personal").document["payload"]["event"]["payload"] == payload


def test_an_event_that_is_not_there_is_said_to_be_so(hudhud: Hudhud, verbs: Verbs) -> None:
    said = hudhud("events", "show", str(verbs.value("select gen_random_uuid()")))
    assert said.code == 1
    assert "There is no event" in said.err


def test_a_subscription_is_paused_and_goes_on(hudhud: Hudhud, verbs: Verbs) -> None:
    said = hudhud("events", "pause", NAME, "--reason", "an incident", "--actor", "ann", "--json")
    assert said.document == {"name": NAME, "state": "paused", "before": "active"}
    publish(verbs, 1)
    assert relay_all(verbs) == 0
    assert line(hudhud)["waiting"] == 1
    assert told(hudhud)[-1][0] == "note"
    hudhud("events", "resume", NAME)
    assert relay_all(verbs) == 1
    assert numbers(verbs) == [1]
    assert hudhud("events", "stop", NAME).code == 2  # for good: that needs a reason
    assert hudhud("events", "stop", NAME, "--reason", "renamed").code == 0
    assert line(hudhud)["state"] == "stopped"
    audited = verbs.values("select action from hudhud.audit order by id")
    assert audited == ["subscription.paused", "subscription.active", "subscription.stopped"]
    assert hudhud("events", "pause", "none").code == 1


def test_who_holds_events_up_is_named(hudhud: Hudhud, database: str) -> None:
    with psycopg.connect(database, prepare_threshold=None) as slow:
        publish(Verbs(slow))
        pid = Verbs(slow).pid
        (stall,) = hudhud("events", "stalls", "--seconds", "0", "--json").lines
        assert (stall["kind"], stall["pid"]) == ("publisher", pid)
        assert hudhud("events", "stalls", "--json").lines == []
        slow.rollback()


def test_a_copy_is_told_and_rebased(hudhud: Hudhud, verbs: Verbs) -> None:
    relay_all(verbs)
    assert told(hudhud) == [("fine", "1 subscriptions, none is behind")]
    assert hudhud("events", "rebase", "--reason", "to be sure").code == 1
    verbs.connection.execute("update hudhud.database_epoch set identity = '7:7'")
    verdict, detail = told(hudhud)[0]
    assert verdict == "WRONG"
    assert "hudhud events rebase" in detail
    assert hudhud("events", "rebase", "--reason", "restored", "--json").document == {"epoch": 1}
    assert told(hudhud)[0][0] == "fine"


def test_the_doctor_alarms_over_what_waits_too_long(hudhud: Hudhud, verbs: Verbs) -> None:
    publish(verbs, 1)
    assert told(hudhud)[0][0] == "fine"
    verbs.take_clock()
    verbs.advance(120)
    verdict, detail = told(hudhud)[0]
    assert verdict == "WRONG"
    assert re.match(rf"1 subscriptions are behind: {NAME} \(1[2-9]\d s\)\.", detail), detail
    assert "Start a worker" in detail


def test_the_doctor_alarms_over_a_subscription_that_nobody_announces(
    hudhud: Hudhud, verbs: Verbs
) -> None:
    verbs.connection.execute(AHEAD)
    verdict, detail = told(hudhud)[-1]
    assert verdict == "WRONG"
    assert NAME in detail
    assert line(hudhud)["is_silent"] is True


def test_the_doctor_alarms_over_a_stopped_subscription_that_a_worker_announces(
    hudhud: Hudhud, verbs: Verbs
) -> None:
    """As after a deploy that renamed it was taken back."""
    verbs.answer("change_subscription", subscription=NAME, state="stopped", actor="ann")
    verdict, detail = told(hudhud)[-1]
    assert verdict == "WRONG"
    assert f"{NAME}, which an operator stopped" in detail
    verbs.connection.execute(AHEAD)
    assert not [detail for _, detail in told(hudhud) if NAME in detail]


def test_the_doctor_names_a_session_that_holds_events_up(
    hudhud: Hudhud, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudhud.cli.doctor.STALL_SECONDS", 0)
    with psycopg.connect(database, prepare_threshold=None) as slow:
        publish(Verbs(slow))
        session = f"session {Verbs(slow).pid} "
        assert any(verdict == "WRONG" and session in detail for verdict, detail in told(hudhud))
        slow.rollback()
