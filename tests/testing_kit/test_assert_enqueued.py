"""Laws of assert_enqueued: it sees what its connection sees, and says where it differs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pytest
from typing_extensions import Unpack, override

from hudhud import Hudhud, NewJob
from hudhud.testing import aassert_enqueued, assert_enqueued
from tests.support.adapters import ADAPTERS

if TYPE_CHECKING:
    import psycopg

    from hudhud.testing.expect import Wanted
    from hudhud.worker.handler import AnyHandler, JobOptions
    from tests.support.adapters import Adapter

app = Hudhud()


@app.handler("receipt.send", queue="mail", lane="high", max_attempts=5)
async def send_receipt(_ctx: object, order_id: int, to: dict[str, Any]) -> None:
    raise NotImplementedError


@app.handler("receipt.send", version=2)
async def send_receipt_2(_ctx: object, order_id: int) -> None:
    raise NotImplementedError


def order(connection: psycopg.Connection, order_id: int = 7, **options: Unpack[JobOptions]) -> None:
    job = send_receipt.using(**options)
    app.enqueue(connection, job, order_id=order_id, to={"name": "Ada", "at": ["a@example.org"]})


def complaint(
    connection: psycopg.Connection,
    handler: AnyHandler,
    payload: dict[str, object] | None = None,
    **wanted: Unpack[Wanted],
) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(connection, handler, payload, **wanted)
    return str(caught.value)


def test_a_job_of_the_own_open_transaction_is_seen(connection: psycopg.Connection) -> None:
    order(connection)
    [job] = assert_enqueued(connection, send_receipt)
    assert (job.type, job.queue, job.lane, job.status) == (
        "receipt.send",
        "mail",
        "high",
        "pending",
    )
    assert job.max_attempts == 5


def test_of_the_payload_only_what_is_named_is_compared(connection: psycopg.Connection) -> None:
    order(connection)
    assert_enqueued(connection, send_receipt, {"order_id": 7})
    assert_enqueued(connection, send_receipt, {"to": {"name": "Ada"}})
    assert_enqueued(connection, "receipt.send", {"to": {"at": ("a@example.org",)}})


def test_an_object_that_equals_everything_matches_everything(
    connection: psycopg.Connection,
) -> None:
    class Anything:
        __hash__ = None  # type: ignore[assignment]

        @override
        def __eq__(self, other: object) -> bool:
            return True

    order(connection)
    assert_enqueued(connection, send_receipt, {"order_id": Anything(), "to": Anything()})


def test_every_option_is_compared_when_it_is_named(connection: psycopg.Connection) -> None:
    at, until = datetime(2100, 1, 1, tzinfo=UTC), datetime(2101, 1, 1, tzinfo=UTC)
    options: JobOptions = {
        "tenant_id": "acme",
        "queue": "slow",
        "lane": "bulk",
        "idempotency_key": "order-7",
        "correlation_id": "request-1",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "max_attempts": 2,
        "available_at": at,
        "expires_at": until,
        "tags": ["paid", "new"],
    }
    order(connection, **options)
    wanted = cast("Wanted", {**options, "version": 1, "status": "pending"})
    assert_enqueued(connection, send_receipt, {"order_id": 7}, **wanted)
    assert_enqueued(connection, send_receipt, tags=["new"])
    for name, wrong in {**dict.fromkeys(options, "other"), "max_attempts": 3}.items():
        different = cast("Wanted", {name: wrong})
        assert f"{name} " in complaint(connection, send_receipt, **different)


def test_a_delay_is_counted_from_the_creation(connection: psycopg.Connection) -> None:
    order(connection, delay_seconds=90)
    assert_enqueued(connection, send_receipt, delay_seconds=90)
    assert "delay_seconds is 90.0, not 60" in complaint(connection, send_receipt, delay_seconds=60)


def test_a_handler_stands_for_its_version_too(connection: psycopg.Connection) -> None:
    order(connection)
    assert "version is 1, not 2" in complaint(connection, send_receipt_2)


def test_the_jobs_come_newest_first_and_as_many_as_counted(connection: psycopg.Connection) -> None:
    for order_id in (1, 2, 3):
        order(connection, order_id)
    jobs = assert_enqueued(connection, send_receipt, count=3)
    assert [job.payload["order_id"] for job in jobs] == [3, 2, 1]
    assert assert_enqueued(connection, send_receipt, {"order_id": 4}, count=0) == []
    assert complaint(connection, send_receipt, count=2).startswith("3 jobs receipt.send, not 2.")


def test_the_message_shows_the_closest_first_and_where_they_differ(
    connection: psycopg.Connection,
) -> None:
    order(connection, 8)
    order(connection, 7)
    app.client.enqueue(connection, NewJob("audit.write", {}))
    lines = complaint(connection, send_receipt, {"order_id": 7}, lane="normal").splitlines()
    assert lines[0] == 'No job receipt.send with payload {"order_id": 7} and lane "normal".'
    assert lines[2].endswith('pending: lane is "high", not "normal"')
    assert lines[3].endswith('pending: payload.order_id is 8, not 7; lane is "high", not "normal"')
    assert lines[4] == "Other types: audit.write (1)"


def test_without_any_job_the_message_asks_whether_it_could_be_seen(
    connection: psycopg.Connection,
) -> None:
    assert "There are no jobs at all" in complaint(connection, send_receipt)


@pytest.mark.parametrize("name", ADAPTERS)
async def test_it_looks_through_a_connection_of_every_library(
    database: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # one test, also for what is not async
    adapter: Adapter = ADAPTERS[name](database)
    async with adapter.transaction() as connection:
        if "async" in name:
            await app.aenqueue(connection, send_receipt, order_id=7, to={})
            jobs = await aassert_enqueued(connection, send_receipt, {"order_id": 7})
        else:
            app.enqueue(connection, send_receipt, order_id=7, to={})
            jobs = assert_enqueued(connection, send_receipt, {"order_id": 7})
        assert [(job.payload, job.tags) for job in jobs] == [({"order_id": 7, "to": {}}, ())]
