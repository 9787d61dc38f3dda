"""hudhud.domain.job: statuses, moves, and options that no database could be asked about."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from hudhud.domain.job import FINAL, MOVES, TURNS, Lane, NewJob, Outcome, Status, check
from hudhud.errors import InvalidJobError


def test_every_status_is_reached_and_every_move_leads_to_one() -> None:
    reached = {status for moves in MOVES.values() for status in moves.values()}
    assert reached == set(Status)
    assert set(MOVES) == {None, *Status}


def test_nothing_moves_once_it_has_ended() -> None:
    assert all(not MOVES[status] for status in FINAL)
    assert {status for status in Status if not MOVES[status]} == FINAL


def test_every_outcome_is_a_move_of_a_running_job() -> None:
    assert set(Outcome) <= set(MOVES[Status.RUNNING])


def test_a_rule_only_turns_a_verb_into_one_that_the_same_job_allows() -> None:
    for moves in MOVES.values():
        for verb in moves:
            assert TURNS.get(verb, frozenset()) <= set(moves)


def test_lanes_are_numbered_by_urgency() -> None:
    assert [(lane.value, lane.number) for lane in Lane] == [
        ("critical", 0),
        ("high", 1),
        ("normal", 2),
        ("bulk", 3),
    ]


FULL = NewJob(
    "refund",
    {},
    version=2,
    tenant_id="بانک",
    queue="bank",
    lane=Lane.HIGH,
    idempotency_key="key\nwith a line",
    on_conflict="replace",
    unique_for_seconds=0.5,
    available_at=datetime(2027, 1, 1, tzinfo=UTC),
    expires_at=datetime(2027, 1, 1, tzinfo=UTC),
    max_attempts=3,
    correlation_id="c",
    traceparent="t",
    tags=("one", "دو"),
)


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"idempotency_key": None, "unique_by": ["a", "b"]},
        {"available_at": None, "delay_seconds": 0},
    ],
)
def test_a_job_with_every_option_passes(others: dict[str, Any]) -> None:
    check(dataclasses.replace(FULL, **others))


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"delay_seconds": 0}, "delay_seconds excludes available_at"),
        ({"unique_by": "payload"}, "unique_by excludes idempotency_key"),
        ({"idempotency_key": None}, "unique_for_seconds needs idempotency_key or unique_by"),
    ],
)
def test_an_option_that_would_count_for_nothing_is_refused(
    others: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidJobError, match=words):
        check(dataclasses.replace(FULL, **others))


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("type", "a\0", "type holds U+0000"),
        ("tenant_id", "\ud800", "tenant_id holds a lone surrogate"),
        ("queue", "q\0", "queue holds U+0000"),
        ("lane", "\0", "lane holds U+0000"),
        ("idempotency_key", "k\0", "idempotency_key holds U+0000"),
        ("correlation_id", "\0", "correlation_id holds U+0000"),
        ("traceparent", "\0", "traceparent holds U+0000"),
        ("tags", ["fine", "\0"], "tags[1] holds U+0000"),
        ("tags", "urgent", "tags must be a list of texts"),
        ("unique_by", ["a", "\0"], "unique_by[1] holds U+0000"),
        ("unique_by", 5, "unique_by must be a list of texts"),
        ("idempotency_key", 17, "idempotency_key must be text, not int"),
        ("version", 0, "version must be a whole number from 1"),
        ("version", True, "version must be a whole number from 1"),
        ("version", 10**10, "version must be a whole number from 1"),
        ("max_attempts", 1.5, "max_attempts must be a whole number from 1"),
        ("delay_seconds", math.nan, "delay_seconds must be a number from 0"),
        ("delay_seconds", math.inf, "delay_seconds must be a number from 0"),
        ("delay_seconds", -1, "delay_seconds must be a number from 0"),
        ("unique_for_seconds", "60", "unique_for_seconds must be a number from 0"),
        ("available_at", datetime(2027, 1, 1), "available_at must be an instant with its zone"),  # noqa: DTZ001 - that is what is refused
        ("expires_at", "2027-01-01", "expires_at must be an instant with its zone"),
    ],
)
def test_an_option_that_the_database_could_not_be_asked_about_is_refused_by_name(
    option: str, value: object, words: str
) -> None:
    """A46: a queue's name, a key, a tag are checked as the payload is."""
    job = NewJob("refund", {})
    with pytest.raises(InvalidJobError) as caught:
        check(dataclasses.replace(job, **cast("dict[str, Any]", {option: value})))
    assert str(caught.value).startswith(words)
