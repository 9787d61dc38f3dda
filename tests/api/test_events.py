"""/v1/events: published after the commit, in order, as sent; shown with the jobs made of them."""

from __future__ import annotations

import json
import uuid
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    import httpx

    from tests.api.conftest import Desk

    Check = Callable[[httpx.Response, int, str], dict[str, object]]

SCOPES = ("publish", "read", "operate")
EVENT: dict[str, object] = {
    "type": "paid",
    "payload": {"order_id": 9007199254740993},
    "aggregate": {"type": "order", "id": "7"},
}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
async def client(desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of tenant acme that may publish and read."""
    async with desk.client(scopes=SCOPES) as opened:
        yield opened


@pytest.fixture
async def stranger(desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of another tenant with the same scopes."""
    async with desk.client("other", SCOPES) as opened:
        yield opened


def errors_of(document: dict[str, object]) -> list[dict[str, str]]:
    found = document["errors"]
    assert isinstance(found, list)
    return found


def subscribe(desk: Desk, *names: str, event_type: str = "paid") -> None:
    wanted = [{"name": name, "event_type": event_type, "start": "beginning"} for name in names]
    desk.sql("select hudhud.announce_events('[]', %s::text::jsonb)", json.dumps(wanted))


def route(desk: Desk, *names: str) -> None:
    for name in names:
        desk.sql("select hudhud.relay(%s)", name)


async def test_an_aggregate_that_somebody_holds_is_not_waited_for_without_end(
    desk: Desk, client: httpx.AsyncClient, problem: Check
) -> None:
    publish = "select hudhud.publish('paid', '{}', tenant_id => 'acme', aggregate_type => 'order',"
    with psycopg.connect(desk.database) as other:
        other.execute(f"{publish} aggregate_id => '7')".encode())
        for headers in ({}, {"Idempotency-Key": "k"}):
            answer = await client.post("/v1/events", json=EVENT, headers=headers)
            problem(answer, 503, "database_unavailable")
            assert "Nothing was done" in str(answer.json()["detail"])
        other.rollback()
    answer = await client.post("/v1/events", json=EVENT, headers={"Idempotency-Key": "k"})
    assert answer.status_code == 202


class Limit:
    """A statement: how long its transaction may stand still."""

    values: Sequence[object] = ()
    named: Mapping[str, object] = MappingProxyType({})

    def sql(self, _: object) -> str:
        return "select current_setting('idle_in_transaction_session_timeout')"

    def answer(self, rows: Sequence[Sequence[object]], _: object) -> object:
        return rows[0][0]


async def test_a_transaction_of_a_face_that_is_gone_is_ended_by_the_server(desk: Desk) -> None:
    database: Any = desk.app.state.face.database
    assert await database.transact(lambda run: run(Limit())) == "15s"


async def test_a_published_event_is_committed_and_found_at_its_location(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    answer = await client.post("/v1/events", json=EVENT)
    assert answer.status_code == 202, answer.text
    event_id = answer.json()["id"]
    assert answer.json() == {"id": event_id, "sequence": 1}
    assert answer.headers["location"] == f"/v1/events/{event_id}"
    assert desk.sql("select tenant_id from hudhud.event where id = %s", event_id) == [("acme",)]

    shown = (await client.get(answer.headers["location"])).json()
    assert {key: shown[key] for key in EVENT} == EVENT
    assert (shown["version"], shown["sequence"], shown["tenant_id"]) == (1, 1, "acme")
    assert shown["correlation_id"] == event_id
    assert (shown["causation_id"], shown["traceparent"]) == (None, None)
    assert shown["jobs"] == []
    assert shown["links"] == {"self": f"/v1/events/{event_id}"}


async def test_every_option_reaches_the_event(client: httpx.AsyncClient) -> None:
    body = {
        **EVENT,
        "version": 3,
        "occurred_at": "2030-01-01T03:30:00+03:30",
        "correlation_id": "c",
        "causation_id": str(uuid.UUID(int=7)),
        "ordered": False,
    }
    made = await client.post("/v1/events", json=body, headers={"traceparent": TRACE})
    assert made.json()["sequence"] is None
    shown = (await client.get(made.headers["location"])).json()
    kept = {key: shown[key] for key in body if key not in {"occurred_at", "ordered"}}
    assert kept == {key: body[key] for key in kept}
    assert shown["occurred_at"] == "2030-01-01T00:00:00Z"
    assert shown["traceparent"] == TRACE


async def test_an_event_without_an_aggregate_has_no_number(client: httpx.AsyncClient) -> None:
    made = await client.post("/v1/events", json={"type": "paid", "payload": {}})
    assert made.json()["sequence"] is None
    assert (await client.get(made.headers["location"])).json()["aggregate"] is None


async def test_events_of_a_bulk_request_keep_their_order(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    about = [{"type": "order", "id": str(n % 2)} for n in range(6)]
    batch = [{"type": "paid", "payload": {"n": n}, "aggregate": about[n]} for n in range(6)]
    answer = await client.post("/v1/events/bulk", json={"events": batch})
    assert answer.status_code == 202, answer.text
    made = answer.json()["events"]
    assert [one["sequence"] for one in made] == [1, 1, 2, 2, 3, 3]
    rows = desk.sql("select id::text, payload -> 'n' from hudhud.event order by position")
    assert rows == [(one["id"], n) for n, one in enumerate(made)]


async def test_a_bulk_request_is_published_whole_or_not_at_all(
    desk: Desk, client: httpx.AsyncClient, problem: Check
) -> None:
    batch = [EVENT, {**EVENT, "payload": {"x": "y" * 20_000}}]
    problem(await client.post("/v1/events/bulk", json={"events": batch}), 413, "payload_too_large")
    for wrong in ([], [EVENT] * 1_001):
        answer = await client.post("/v1/events/bulk", json={"events": wrong})
        assert errors_of(problem(answer, 422, "invalid_request"))[0]["path"] == "$.events"
    assert desk.sql("select count(*) from hudhud.event") == [(0,)]
    fine = await client.post("/v1/events/bulk", json={"events": [EVENT] * 1_000})
    assert [one["sequence"] for one in fine.json()["events"]] == list(range(1, 1_001))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"type": ""}, "$.type"),
        ({"type": None}, "$.type"),
        ({"payload": []}, "$.payload"),
        ({"payload": {"a": [1, "\0"]}}, "$.payload.a[1]"),
        ({"version": 0}, "$.version"),
        ({"aggregate": {"type": "order"}}, "$.aggregate.id"),
        ({"aggregate": {"type": "order", "id": 7}}, "$.aggregate.id"),
        ({"aggregate": {"type": "", "id": "7"}}, "$.aggregate.type"),
        ({"aggregate": "order"}, "$.aggregate"),
        ({"occurred_at": "2030-01-01T00:00:00"}, "$.occurred_at"),
        ({"correlation_id": "c\0"}, "$.correlation_id"),
        ({"causation_id": "seven"}, "$.causation_id"),
        ({"ordered": "yes"}, "$.ordered"),
        ({"tenant_id": "other"}, "$.tenant_id"),
    ],
)
async def test_a_wrong_field_is_named(
    *, client: httpx.AsyncClient, problem: Check, change: dict[str, object], path: str
) -> None:
    single = await client.post("/v1/events", json={**EVENT, **change})
    assert errors_of(problem(single, 422, "invalid_request"))[0]["path"] == path
    assert "seven" not in single.text
    bulk = await client.post("/v1/events/bulk", json={"events": [EVENT, {**EVENT, **change}]})
    expected = path.replace("$", "$.events[1]")
    assert errors_of(problem(bulk, 422, "invalid_request"))[0]["path"] == expected


async def test_an_announced_contract_is_kept_at_intake(
    desk: Desk, client: httpx.AsyncClient, problem: Check
) -> None:
    contract = {
        "type": "paid",
        "version": 1,
        "schema": {
            "required": {"amount": "integer"},
            "optional": {"email": "string"},
            "open": False,
        },
        "personal": ["email"],
    }
    desk.sql("select hudhud.announce_events(%s::text::jsonb, '[]')", json.dumps([contract]))
    wrong: list[tuple[dict[str, object], str]] = [
        ({"amount": "1"}, "$.payload.amount"),
        ({}, "$.payload.amount"),
        ({"amount": 1, "email": "a@example.org"}, "$.payload.email"),
    ]
    for payload, path in wrong:
        event = {"type": "paid", "payload": payload}
        single = await client.post("/v1/events", json=event)
        (error,) = errors_of(problem(single, 422, "invalid_request"))
        assert error["path"] == path
        fine = {"type": "paid", "payload": {"amount": 1}}
        bulk = await client.post("/v1/events/bulk", json={"events": [fine, event]})
        (error,) = errors_of(problem(bulk, 422, "invalid_request"))
        assert error["path"] == path.replace("$", "$.events[1]")
        assert "example.org" not in single.text + bulk.text
    assert desk.sql("select count(*) from hudhud.event") == [(0,)]


async def test_a_payload_over_the_limit_answers_413(
    client: httpx.AsyncClient, problem: Check
) -> None:
    for size in (20_000, 70_000):
        answer = await client.post("/v1/events", json={**EVENT, "payload": {"x": "y" * size}})
        problem(answer, 413, "payload_too_large")
    answer = await client.post("/v1/events", json={**EVENT, "payload": {"x": "y" * 140_000}})
    problem(answer, 413, "body_too_large")


async def test_an_event_shows_the_jobs_that_were_made_of_it(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    subscribe(desk, "paid:ship", "paid:tell")
    subscribe(desk, "refunded:tell", event_type="refunded")
    first, second = [(await client.post("/v1/events", json=EVENT)).json()["id"] for _ in range(2)]
    route(desk, "paid:ship", "paid:tell", "refunded:tell")

    jobs: list[dict[str, Any]] = []
    for event_id in (first, second):
        jobs = (await client.get(f"/v1/events/{event_id}")).json()["jobs"]
        assert sorted(job["type"] for job in jobs) == ["paid:ship", "paid:tell"]
        assert [job["status"] for job in jobs] == ["pending"] * 2
        for job in jobs:
            shown = (await client.get(job["links"]["self"])).json()
            assert shown["payload"]["event"]["id"] == event_id
            assert shown["correlation_id"] == event_id
    cancelled = jobs[0]["links"]["self"]
    assert (await client.post(f"{cancelled}/cancellation", json={})).is_success
    jobs = (await client.get(f"/v1/events/{second}")).json()["jobs"]
    assert [job["status"] for job in jobs] == ["cancelled", "pending"]
    desk.sql("update hudhud.outcome set outcome = 'fail' where job_id = %s", jobs[0]["id"])
    desk.sql("select hudhud.replay(%s, actor => 'ann', reason => 'a mistake')", jobs[0]["id"])
    jobs = (await client.get(f"/v1/events/{second}")).json()["jobs"]
    assert [job["status"] for job in jobs] == ["dead", "pending", "pending"]


async def test_a_job_that_only_looks_as_if_made_of_an_event_is_not_shown(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    subscribe(desk, "paid:ship")
    event_id = (await client.post("/v1/events", json=EVENT)).json()["id"]
    route(desk, "paid:ship")
    payload = json.dumps({"event": {"id": event_id}})
    desk.sql("select hudhud.enqueue('mail', %s::text::jsonb, tenant_id => 'acme')", payload)
    for tenant in ("acme", "other"):
        enqueue = "select hudhud.enqueue('paid:ship', %s::text::jsonb, tenant_id => %s)"
        desk.sql(enqueue, payload, tenant)
    jobs = (await client.get(f"/v1/events/{event_id}")).json()["jobs"]
    assert [job["type"] for job in jobs] == ["paid:ship"]
    assert len(jobs) == 1


@pytest.mark.parametrize("event", ["text", {"id": "x" * 60_000}, {"id": {"a": 1}}, [1], None])
async def test_a_job_may_have_any_field_of_the_name_event(desk: Desk, event: object) -> None:
    async with desk.client(scopes=("enqueue",)) as client:
        job = {"type": "mail", "payload": {"event": event}}
        assert (await client.post("/v1/jobs", json=job)).status_code == 202


async def test_a87_another_tenants_event_is_as_absent_as_a_random_id(
    client: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    event_id = (await client.post("/v1/events", json=EVENT)).json()["id"]
    places = (event_id, str(uuid.uuid4()), "no-id", "%00", event_id.replace("-", ""))
    answers = [await stranger.get(f"/v1/events/{place}") for place in places]
    assert [answer.status_code for answer in answers] == [404] * 5
    assert len({answer.content for answer in answers}) == 1
    assert len({tuple(answer.headers.items()) for answer in answers}) == 1
    assert (await client.get(f"/v1/events/{event_id.upper()}")).status_code == 200


async def test_aggregates_of_two_tenants_count_apart(
    client: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    for one in (client, stranger):
        assert (await one.post("/v1/events", json=EVENT)).json()["sequence"] == 1
        bulk = await one.post("/v1/events/bulk", json={"events": [EVENT, EVENT]})
        assert [event["sequence"] for event in bulk.json()["events"]] == [2, 3]


async def test_a_job_and_an_event_have_ids_of_their_own(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    event_id = (await client.post("/v1/events", json=EVENT)).json()["id"]
    assert (await client.get(f"/v1/jobs/{event_id}")).status_code == 404
    assert desk.sql("select count(*) from hudhud.job_all") == [(0,)]
