"""publish_many: as publish, for many at once, in order, and no two batches in each other's way."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING

import pytest
from psycopg.types.json import Jsonb

from tests.support.sessions import SECONDS

if TYPE_CHECKING:
    from tests.support.sessions import Sessions
    from tests.support.verbs import Row, Value, Verbs


def many(db: Verbs, *events: dict[str, Value], **options: Value) -> Row:
    return db.answer("publish_many", events=Jsonb(list(events)), **options)


def about(aggregate_id: str, **fields: Value) -> dict[str, Value]:
    aggregate = {"aggregate_type": "order", "aggregate_id": aggregate_id}
    return {"type": "paid", "payload": {}, **aggregate, **fields}


def test_events_are_written_in_their_order_and_numbered_per_aggregate(db: Verbs) -> None:
    db.answer("publish", **about("b"))
    made = many(db, about("b"), about("a"), {"type": "paid", "payload": {}}, about("a"), about("b"))
    assert made.sequences == [2, 1, None, 2, 3]
    assert db.values("select id from hudhud.event order by position")[1:] == made.ids


def test_each_event_has_every_option_that_one_event_has(db: Verbs) -> None:
    cause = uuid.uuid4()
    options = {
        "version": 3,
        "tenant_id": "acme",
        "ordered": False,
        "occurred_at": "2030-01-01T00:00:00+00:00",
        "correlation_id": "c",
        "causation_id": str(cause),
        "traceparent": "t",
    }
    alone = db.answer("publish", **about("a", **options))
    together = many(db, about("a", **options), about("a"))
    columns = (
        "version, tenant_id, sequence, occurred_at, correlation_id, causation_id, traceparent,"
        " aggregate_id, type"
    )
    rows = [
        db.row(f"select {columns} from hudhud.event where id = %s", one)  # noqa: S608
        for one in (alone.id, together.ids[0])
    ]
    assert rows[0] == rows[1]
    assert rows[0].causation_id == cause
    assert together.sequences == [None, 1]


def test_options_are_those_of_publish(db: Verbs) -> None:
    names = db.values(
        "select unnest(proargnames) from pg_proc where proname = 'publish'"
        " and pronamespace = 'hudhud'::regnamespace"
    )
    body = db.value("select prosrc from pg_proc where proname = 'publish_many'")
    missing = [name for name in set(names) - {"id", "sequence"} if f"{name}" not in body]
    assert missing == []


def test_no_events_are_no_error(db: Verbs) -> None:
    assert many(db) == ([], [])


@pytest.mark.parametrize(
    ("wrong", "state", "words"),
    [
        ({"type": ""}, "HH011", "type must have"),
        ({"payload": None}, "HH011", "JSON object"),
        ({"payload": {"x": "y" * 20_000}}, "HH002", "16384"),
        ({"version": 0}, "HH011", "version"),
        ({"aggregate_id": ""}, "HH011", "aggregate_id"),
        ({"aggregate_id": "x" * 3_000}, "HH011", "aggregate_id"),
        ({"aggregate_type": None}, "HH011", "both aggregate_type and aggregate_id"),
        ({"tenant_id": ""}, "HH011", "tenant_id"),
    ],
)
def test_one_that_is_refused_is_named_by_its_position_and_none_is_written(
    *, db: Verbs, wrong: dict[str, Value], state: str, words: str
) -> None:
    with db.refused(state, "position 2", words):
        many(db, about("a"), about("b") | wrong, about("c"))
    assert db.value("select count(*) from hudhud.event") == 0
    assert db.value("select count(*) from hudhud.event_aggregate") == 0


@pytest.mark.parametrize("events", [{}, None, "text"])
def test_what_is_no_list_is_refused(db: Verbs, events: Value) -> None:
    with db.refused("HH011", "JSON array"):
        db.answer("publish_many", events=Jsonb(events))


def test_batches_about_the_same_in_opposite_order_never_deadlock(sessions: Sessions) -> None:
    ids = [str(n) for n in range(20)]

    def publish(db: Verbs, order: list[str]) -> list[int]:
        return list(many(db, *(about(one) for one in order)).sequences)

    orders = [ids, ids[::-1], ids[5:] + ids[:5], ids[1::2] + ids[::2]]
    opened = [sessions.open() for _ in orders]
    for _ in range(5):
        asked = [
            sessions.start(partial(publish, db, order))
            for db, order in zip(opened, orders, strict=True)
        ]
        for answer in asked:
            assert len(answer.result(SECONDS)) == 20
    counted = opened[0].values("select sequence from hudhud.event_aggregate")
    assert counted == [20] * 20
    gaps = opened[0].values(
        "select aggregate_id from hudhud.event group by aggregate_id"
        " having array_agg(sequence order by position)"
        " <> array(select generate_series(1::bigint, 20))"
    )
    assert gaps == []
