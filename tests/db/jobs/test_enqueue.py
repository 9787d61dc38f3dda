"""enqueue: one job, with every option."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.verbs import Row, Verbs

SOON = datetime(2090, 1, 2, 3, 4, 5, tzinfo=UTC)
PAST = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
OPTIONS = {
    "version": 3,
    "tenant_id": "acme",
    "queue": "post",
    "lane": "high",
    "idempotency_key": "k1",
    "available_at": SOON,
    "expires_at": SOON + timedelta(days=1),
    "max_attempts": 7,
    "correlation_id": "corr",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tags": ["a", "ب"],
}


def job(db: Verbs, job_id: object) -> Row:
    return db.row("select * from hudhud.job where id = %s", job_id)


def test_every_option_is_kept_as_given(db: Verbs) -> None:
    row = job(db, db.enqueue("mail", {"to": "x"}, **OPTIONS))
    kept = {name: getattr(row, name) for name in OPTIONS}
    assert kept == OPTIONS | {"lane": 1}
    assert (row.type, row.payload, row.shard) == ("mail", {"to": "x"}, 0)
    assert (row.root_id, row.replay_of, row.resubmit_of) == (None, None, None)


def test_a_job_of_an_unannounced_type_gets_the_defaults(db: Verbs) -> None:
    row = job(db, db.enqueue("mail"))
    assert (row.version, row.tenant_id, row.queue, row.lane) == (1, "default", "default", 2)
    assert (row.max_attempts, row.idempotency_key, row.available_at) == (20, None, None)


def test_what_the_type_announced_is_its_default(db: Verbs) -> None:
    kind = {"type": "mail", "version": 1, "queue": "post", "lane": "bulk", "max_attempts": 3}
    db.call("announce", types=[kind])
    row = job(db, db.enqueue("mail"))
    assert (row.queue, row.lane, row.max_attempts) == ("post", 3, 3)
    row = job(db, db.enqueue("mail", queue="q", lane="critical", max_attempts=9))
    assert (row.queue, row.lane, row.max_attempts) == ("q", 0, 9)
    row = job(db, db.enqueue("mail", version=2))
    assert row.queue == "default"


def test_a_job_without_a_time_is_ready_at_once(db: Verbs) -> None:
    job_id = db.enqueue(lane="high", tenant_id="acme", queue="post")
    ready = db.row("select * from hudhud.ready where job_id = %s", job_id)
    assert (ready.run, ready.attempt, ready.crashes, ready.line, ready.shard) == (1, 0, 0, 2, 0)
    assert (ready.lane, ready.queue, ready.tenant_id) == (1, "post", "acme")


@pytest.mark.parametrize(
    "option", [{"available_at": SOON}, {"delay": timedelta(seconds=5)}], ids=["instant", "delay"]
)
def test_a_job_with_a_time_waits_for_it(clocked: Verbs, option: dict[str, Any]) -> None:
    job_id = clocked.enqueue(**option)
    due = option.get("available_at") or clocked.value("select hudhud.clock() + interval '5 s'")
    assert clocked.place(job_id) == "scheduled"
    assert clocked.status(job_id).available_at == due


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"available_at": SOON, "delay": timedelta(seconds=5)}, "available_at or delay, not both"),
        ({"unique_for": timedelta(minutes=1)}, "unique_for needs idempotency_key or unique_by"),
    ],
)
def test_an_option_that_would_count_for_nothing_is_refused(
    db: Verbs, options: dict[str, Any], words: str
) -> None:
    with db.refused("HH001", words):
        db.enqueue(**options)
    db.call("announce", types=[{"type": "mail", "version": 1}])
    with db.refused("HH001", words):
        db.enqueue(**options)


@pytest.mark.parametrize(
    "option", [{"available_at": PAST}, {"delay": timedelta(seconds=-5)}, {"delay": timedelta()}]
)
def test_a_time_that_has_come_is_no_wait(db: Verbs, option: dict[str, Any]) -> None:
    assert db.place(db.enqueue(**option)) == "ready"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"type": ""}, "type"),
        ({"type": "t" * 201}, "type"),
        ({"type": None}, "type"),
        ({"version": 0}, "version"),
        ({"version": 32_768}, "version"),
        ({"version": None}, "version"),
        ({"tenant_id": ""}, "tenant_id"),
        ({"tenant_id": "t" * 201}, "tenant_id"),
        ({"tenant_id": None}, "tenant_id"),
        ({"queue": ""}, "queue"),
        ({"queue": "ب" * 32}, "queue"),
        ({"queue": "!beat"}, "queue"),
        ({"lane": "urgent"}, "lane"),
        ({"lane": ""}, "lane"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_key": "k" * 501}, "idempotency_key"),
        ({"on_conflict": "ignore"}, "on_conflict"),
        ({"on_conflict": None}, "on_conflict"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 32_768}, "max_attempts"),
        ({"tags": ["a"] * 21}, "tags"),
        ({"tags": ["a", None]}, "tags"),
        ({"tags": [""]}, "tags"),
        ({"tags": ["a" * 101]}, "tags"),
        ({"traceparent": "t" * 201}, "traceparent"),
        ({"correlation_id": "c" * 201}, "correlation_id"),
        ({"unique_by": ["payload"], "idempotency_key": "k"}, "unique_by"),
        ({"available_at": "infinity"}, "available_at"),
        ({"available_at": "10000-01-01"}, "available_at"),
        ({"expires_at": "infinity"}, "expires_at"),
        ({"expires_at": "0044-03-15 BC"}, "expires_at"),
    ],
    ids=str,
)
def test_an_option_out_of_bounds_is_refused_by_its_name(
    db: Verbs, options: dict[str, Any], word: str
) -> None:
    given = {"type": "mail"} | options
    with db.refused("HH001", word):
        db.call("enqueue", payload={}, **given)


@pytest.mark.parametrize(
    "options",
    [
        {"type": "t" * 200},
        {"queue": "q" * 63},
        {"idempotency_key": "k" * 500},
        {"tags": ["a" * 100] * 20},
        {"version": 32_767},
        {"max_attempts": 32_767},
    ],
    ids=str,
)
def test_an_option_at_its_bound_is_taken(db: Verbs, options: dict[str, Any]) -> None:
    given = {"type": "mail"} | options
    db.call("enqueue", payload={}, **given)


def test_a_strict_queue_takes_only_announced_types(db: Verbs) -> None:
    db.connection.execute("insert into hudhud.queue (name, is_strict) values ('bank', true)")
    with db.refused("HH004", "mail", "bank"):
        db.enqueue(queue="bank")
    db.call("announce", types=[{"type": "mail", "version": 1}])
    db.enqueue(queue="bank")
    with db.refused("HH004", "version 2"):
        db.enqueue(queue="bank", version=2)


def test_the_id_is_the_servers_and_ends_with_the_shard(db: Verbs) -> None:
    job_id = db.enqueue()
    assert job_id.version == 7
    assert job_id.bytes[15] == 0
    assert job(db, job_id).shard == 0


def test_created_at_is_the_databases_clock(clocked: Verbs) -> None:
    """A04."""
    clocked.advance(-86_400)
    row = job(clocked, clocked.enqueue())
    assert row.created_at == clocked.value("select hudhud.clock()")
