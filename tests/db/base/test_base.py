"""The small functions that the verbs are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from psycopg.types.json import Jsonb

from hudhud.domain.job import Lane

if TYPE_CHECKING:
    from tests.support.verbs import Verbs


def test_the_clock_tells_the_instant_of_the_call(db: Verbs) -> None:
    """Not that of the transaction's start."""
    first = db.answer("clock")
    later = db.value("select hudhud.clock() from pg_sleep(0)")
    assert db.value("select now()") < first < later


@pytest.mark.parametrize("lane", Lane)
def test_a_lane_is_stored_by_its_number(db: Verbs, lane: Lane) -> None:
    assert db.answer("lane_number", lane=lane.value) == lane.number
    assert db.value("select hudhud.lane_name(%s::smallint)", lane.number) == lane.value


@pytest.mark.parametrize("lane", ["", "urgent", "HIGH", None])
def test_an_unknown_lane_has_no_number(db: Verbs, lane: str | None) -> None:
    assert db.answer("lane_number", lane=lane) is None


@pytest.mark.parametrize(
    ("raw", "types", "expected"),
    [
        ("1", "|integer|", True),
        ("1.0", "|integer|", True),
        ("-0.0", "|integer|", True),
        ("1e400", "|integer|", True),
        ("1.5", "|integer|", False),
        ("1.5", "|number|", True),
        ("1", "|number|", True),
        ('"1"', "|integer|", False),
        ('"1"', "|string|null|", True),
        ("null", "|string|null|", True),
        ("null", "|string|", False),
        ("true", "|boolean|", True),
        ("[]", "|object|", False),
        ("{}", "|any|", True),
        ("null", "|any|", True),
    ],
)
def test_a_value_has_one_of_the_listed_types(
    db: Verbs, *, raw: str, types: str, expected: object
) -> None:
    assert db.answer("has_json_type", value=raw, types=types) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(["a", "b"], ["a", "b"]), ("a", ["a"]), ([], []), (None, None), (1, None)],
    ids=str,
)
def test_json_texts_become_an_array(db: Verbs, value: object, expected: object) -> None:
    sent = None if value is None else Jsonb(value)
    assert db.answer("json_texts", list=sent) == expected


def test_one_element_holds_for_all(db: Verbs) -> None:
    read = "select hudhud.pick(%s::text[], n) from generate_series(1, 3) n"
    assert db.values(read, ["a"]) == ["a"] * 3
    assert db.values(read, ["a", None, "c"]) == ["a", None, "c"]
    assert db.values(read, None) == [None] * 3


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2026-11-30 12:00+00", True),
        ("0001-01-02 00:00+00", True),
        ("9998-12-31 23:59+00", True),
        ("infinity", False),
        ("-infinity", False),
        ("10000-01-01", False),
        ("0044-03-15 BC", False),
        (None, None),
    ],
)
def test_an_instant_is_one_that_every_client_can_read(
    db: Verbs, at: str | None, expected: object
) -> None:
    assert db.answer("is_instant", at=at) is expected


def test_an_act_is_audited_with_all_that_is_told(clocked: Verbs) -> None:
    clocked.call(
        "write_audit",
        actor="ann",
        action="job.cancel",
        tenant_id="acme",
        subject="s",
        reason="r",
        detail={"a": 1},
    )
    row = clocked.row(
        "select at, actor, action, tenant_id, subject, reason, detail from hudhud.audit"
    )
    now = clocked.value("select hudhud.clock()")
    assert row == (now, "ann", "job.cancel", "acme", "s", "r", {"a": 1})


@pytest.mark.parametrize("actor", [None, ""])
def test_an_act_without_an_actor_is_refused(db: Verbs, actor: str | None) -> None:
    with db.refused("HH001", "actor"):
        db.call("write_audit", actor=actor, action="a", tenant_id=None, subject="s")
