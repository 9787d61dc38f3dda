"""enqueue_many: every option of enqueue, for each job of a batch, all or nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from tests.support.verbs import Row, Value, Verbs

SOON = datetime(2090, 1, 2, 3, 4, 5, tzinfo=UTC)
# Per option of enqueue: the array of enqueue_many, and values for three jobs.
OPTIONS: dict[str, tuple[str, list[Any]]] = {
    "version": ("versions", [1, 2, 3]),
    "tenant_id": ("tenant_ids", ["a", "b", "a"]),
    "queue": ("queues", ["q1", None, "q2"]),
    "lane": ("lanes", ["critical", None, "bulk"]),
    "idempotency_key": ("idempotency_keys", ["k1", None, "k2"]),
    "available_at": ("available_at", [SOON, None, SOON]),
    "expires_at": ("expires_at", [None, SOON, SOON + timedelta(1)]),
    "max_attempts": ("max_attempts", [1, None, 3]),
    "correlation_id": ("correlation_ids", ["c1", None, "c3"]),
    "traceparent": ("traceparents", [None, "t2", "t3"]),
    "tags": ("tags", [["x"], None, ["y", "z"]]),
}
KEPT = ", ".join(name for name in OPTIONS if name != "idempotency_key")


def many(db: Verbs, amount: int, /, **arrays: Value) -> Row:
    given = {"types": ["mail"], "payloads": [{"n": n} for n in range(1, amount + 1)]} | arrays
    return db.answer("enqueue_many", **given)


def jobs(db: Verbs) -> list[Row]:
    return db.rows("select * from hudhud.job order by (payload ->> 'n')::integer")


def test_a_batch_takes_every_option_that_one_job_takes(db: Verbs) -> None:
    arguments = db.values(
        "select unnest(proargnames) from pg_proc where proname = 'enqueue'"
        " and pronamespace = 'hudhud'::regnamespace"
    )
    special = {"type", "payload", "on_conflict", "unique_for", "unique_by", "delay", "notify"}
    assert set(arguments) == {*OPTIONS, *special, "id", "deduplicated"}


def test_each_job_of_a_batch_has_options_of_its_own(db: Verbs) -> None:
    arrays = dict(OPTIONS.values())
    arrays["tags"] = [None if tags is None else Jsonb(tags) for tags in arrays["tags"]]
    answer = many(db, 3, types=["mail", "sms", "mail"], **arrays)
    rows = jobs(db)
    assert [row.id for row in rows] == answer.ids
    assert answer.deduplicated == [False] * 3
    assert [row.type for row in rows] == ["mail", "sms", "mail"]
    defaults = {"queue": "default", "lane": 2, "max_attempts": 20}
    for n, row in enumerate(rows):
        for name, (_, values) in OPTIONS.items():
            expected = defaults.get(name) if values[n] is None else values[n]
            if name == "lane" and values[n] is not None:
                expected = {"critical": 0, "bulk": 3}[values[n]]
            assert getattr(row, name) == expected, (n, name)
    assert [db.place(row.id) for row in rows] == ["scheduled", "ready", "scheduled"]


@pytest.mark.parametrize("option", OPTIONS)
def test_an_array_of_one_holds_for_all(db: Verbs, option: str) -> None:
    array, values = OPTIONS[option]
    value = values[-1]
    if option == "idempotency_key":
        with db.refused("HH001", "idempotency_keys"):
            many(db, 2, idempotency_keys=[value])
        return
    many(db, 2, **{array: [Jsonb(value) if option == "tags" else value]})
    expected = 3 if option == "lane" else value
    assert [getattr(row, option) for row in jobs(db)] == [expected, expected]


@pytest.mark.parametrize("option", OPTIONS)
def test_an_array_of_another_length_is_refused(db: Verbs, option: str) -> None:
    array, values = OPTIONS[option]
    if option == "tags":
        values = [None if tags is None else Jsonb(tags) for tags in values]
    with db.refused("HH001"):
        many(db, 4, **{array: values})


@pytest.mark.parametrize("types", [None, [], ["a", "b", "c"], [None], ["a", None]], ids=str)
def test_types_are_required(db: Verbs, types: list[str | None] | None) -> None:
    with db.refused("HH001", "type"):
        many(db, 2, types=types)
    with db.refused("HH001", "type"):
        many(db, 2, types=types, idempotency_keys=["k1", "k2"])


def test_delays_are_counted_from_the_databases_clock(clocked: Verbs) -> None:
    many(clocked, 3, delays=[timedelta(seconds=5), None, timedelta(days=1)])
    now = clocked.value("select hudhud.clock()")
    due = [now + timedelta(seconds=5), None, now + timedelta(days=1)]
    assert [row.available_at for row in jobs(clocked)] == due
    assert [row.created_at for row in jobs(clocked)] == [now] * 3


def test_the_defaults_of_each_type_hold_in_a_mixed_batch(db: Verbs) -> None:
    kinds = [
        {"type": "mail", "version": 1, "queue": "post", "lane": "bulk", "max_attempts": 3},
        {"type": "sms", "version": 1, "queue": "phone", "lane": "high", "max_attempts": 4},
    ]
    db.call("announce", types=kinds)
    many(db, 3, types=["mail", "sms", "push"])
    told = [(row.queue, row.lane, row.max_attempts) for row in jobs(db)]
    assert told == [("post", 3, 3), ("phone", 1, 4), ("default", 2, 20)]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"queues": ["q", "q", "!q"]}, ("position 3", "queue")),
        ({"lanes": ["high", "urgent", "urgent"]}, ("position 2", "lane")),
        ({"versions": [1, 0, 1]}, ("position 2", "version")),
        ({"tenant_ids": ["a", "b", ""]}, ("position 3", "tenant_id")),
        ({"max_attempts": [1, 2, 0]}, ("position 3", "max_attempts")),
        ({"tags": [None, Jsonb([""]), None]}, ("position 2", "tags")),
        ({"traceparents": ["t", "t" * 201, "t"]}, ("position 2", "traceparent")),
        ({"correlation_ids": ["c", "c" * 201, "c"]}, ("position 2", "correlation_id")),
        ({"idempotency_keys": ["a", "", "b"]}, ("position 2", "idempotency_key")),
        ({"on_conflicts": ["reject", "replace", "no"]}, ("position 3", "on_conflict")),
        ({"expires_at": ["2090-01-01", "infinity", None]}, ("position 2", "expires_at")),
        ({"available_at": [None, "infinity", None]}, ("position 2", "available_at")),
        ({"types": ["a", "b", ""]}, ("position 3", "type")),
        ({"payloads": [{"n": 1}, {"n": 2}, Jsonb([])]}, ("position 3", "object")),
    ],
    ids=str,
)
def test_a_refusal_names_the_position_and_nothing_is_enqueued(
    db: Verbs, arrays: dict[str, Any], words: tuple[str, ...]
) -> None:
    with db.refused("HH001", *words):
        many(db, 3, **arrays)
    assert jobs(db) == []
    assert db.values("select key from hudhud.idempotency") == []


@pytest.mark.parametrize(
    "wrong",
    [{"payloads": [{"n": 1}, Jsonb([])]}, {"lanes": ["high", "urgent"]}, {"versions": [1, 0]}],
    ids=str,
)
def test_a_job_that_exists_already_is_held_to_the_same_rules_as_a_new_one(
    db: Verbs, wrong: dict[str, Any]
) -> None:
    """As for a single job: a caller's mistake does not hide behind a key."""
    many(db, 2, idempotency_keys=["a", "b"])
    with db.refused("HH001", "position 2"):
        many(db, 2, idempotency_keys=["a", "b"], **wrong)
    assert len(jobs(db)) == 2


def test_the_first_bad_payload_is_named_by_its_place_in_the_batch(db: Verbs) -> None:
    contract = {"type": "mail", "version": 1, "schema": {"required": {"n": "integer"}}}
    db.call("announce", types=[contract])
    payloads = [{"n": 1}, {"n": 2}, {"n": "3"}, {"n": "4"}]
    with db.refused("HH001", "position 3", "$.n"):
        many(db, 4, payloads=payloads)
    with db.refused("HH001", "position 3", "$.n"):
        many(db, 4, payloads=payloads, queues=["a", "b", "a", "b"])


def test_a_strict_queue_refuses_a_batch_with_one_unknown_type(db: Verbs) -> None:
    db.connection.execute("insert into hudhud.queue (name, is_strict) values ('bank', true)")
    db.call("announce", types=[{"type": "mail", "version": 1}])
    many(db, 2, queues=["bank"])
    with db.refused("HH004", "position 3", "sms", "bank"):
        many(db, 3, types=["mail", "mail", "sms"], queues=["bank"])


@pytest.mark.parametrize(
    ("arrays", "position"),
    [
        ({"available_at": [SOON], "delays": [timedelta(1)]}, 1),
        ({"available_at": [None, SOON, None], "delays": [timedelta(1), None, None]}, None),
        ({"available_at": [None, SOON, SOON], "delays": [None, None, timedelta(1)]}, 3),
        ({"unique_for": [timedelta(1)]}, 1),
        ({"unique_for": [timedelta(1)], "idempotency_keys": [None] * 3}, 1),
        ({"unique_for": [timedelta(1)], "idempotency_keys": [None, "k", None]}, None),
        ({"unique_for": [None, timedelta(1), None], "idempotency_keys": [None, "k", None]}, None),
        ({"unique_for": [None, timedelta(1), None], "idempotency_keys": ["k", None, None]}, 2),
        ({"unique_for": [None, timedelta(1), None], "unique_by": ['"payload"']}, None),
        ({"unique_for": [None]}, None),
    ],
)
def test_an_option_that_would_count_for_nothing_is_refused_with_its_position(
    db: Verbs, arrays: dict[str, Value], position: int | None
) -> None:
    """A term for all of a batch is one for those of it that have a key."""
    if position is None:
        assert len(many(db, 3, **arrays).ids) == 3
        return
    with db.refused(
        "HH001", f"position {position} ", "not both" if "delays" in arrays else "needs"
    ):
        many(db, 3, **arrays)


def test_an_empty_batch_is_no_error(db: Verbs) -> None:
    assert many(db, 0, payloads=[]) == ([], [])
    assert many(db, 0, types=None, payloads=None) == ([], [])


def test_a_thousand_jobs_keep_their_order(db: Verbs) -> None:
    answer = many(db, 1_000, lanes=["high" if n % 3 else "bulk" for n in range(1_000)])
    assert [row.id for row in jobs(db)] == answer.ids
    assert len(set(answer.ids)) == 1_000
    assert sorted(answer.ids) == answer.ids
    for lane in (1, 3):
        in_line = db.values("select job_id from hudhud.ready where lane = %s order by seq", lane)
        assert in_line == sorted(in_line)
    assert {job_id.bytes[15] for job_id in answer.ids} == {0}


def test_two_batches_of_one_moment_share_no_id(db: Verbs) -> None:
    first, second = many(db, 1_000).ids, many(db, 1_000).ids
    assert not set(first) & set(second)


def test_a_batch_makes_one_range_known_per_lane_and_tenant(db: Verbs) -> None:
    many(db, 100, tenant_ids=["a", "b"] * 50, lanes=["high"])
    known = db.ranges()
    assert sorted(zip(known.lanes, known.tenants, strict=True)) == [(1, "a"), (1, "b")]
