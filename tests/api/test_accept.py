"""POST /v1/jobs: accepted after the commit, once, exactly as sent, or refused with the path."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import httpx

    from tests.api.conftest import Desk

    Check = Callable[[httpx.Response, int, str], dict[str, object]]


def errors_of(document: dict[str, object]) -> list[dict[str, str]]:
    found = document["errors"]
    assert isinstance(found, list)
    return found


async def post_text(client: httpx.AsyncClient, text: str, path: str = "") -> httpx.Response:
    headers = {"content-type": "application/json"}
    return await client.post(f"/v1/jobs{path}", content=text, headers=headers)


async def test_an_accepted_job_is_committed_and_found_at_its_location(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    response = await client.post("/v1/jobs", json={"type": "mail.send", "payload": {"to": "a"}})

    assert response.status_code == 202
    job_id = response.json()["id"]
    assert response.json() == {"id": job_id, "deduplicated": False}
    assert response.headers["location"] == f"/v1/jobs/{job_id}"
    assert desk.sql("select tenant_id from hudhud.job where id = %s", job_id) == [("acme",)]
    shown = await client.get(response.headers["location"])
    assert shown.json()["status"] == "pending"


async def test_every_option_reaches_the_job(client: httpx.AsyncClient) -> None:
    body = {
        "type": "mail.send",
        "payload": {"to": "a"},
        "version": 3,
        "queue": "mail",
        "lane": "high",
        "idempotency_key": "k",
        "expires_at": "2031-01-01T00:00:00Z",
        "available_at": "2030-01-01T03:30:00+03:30",
        "max_attempts": 7,
        "correlation_id": "c",
        "tags": ["x", "y"],
    }
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    made = await client.post("/v1/jobs", json=body, headers={"traceparent": trace})
    assert made.status_code == 202, made.text

    job = (await client.get(made.headers["location"])).json()
    kept = {key: job[key] for key in body if key not in {"available_at", "expires_at"}}
    assert kept == {key: body[key] for key in kept}
    assert job["available_at"] == "2030-01-01T00:00:00Z"
    assert job["expires_at"] == "2031-01-01T00:00:00Z"
    assert job["waiting_for"] == "time"
    assert job["traceparent"] == trace


async def test_a_malformed_traceparent_is_ignored(client: httpx.AsyncClient) -> None:
    made = await client.post(
        "/v1/jobs", json={"type": "a", "payload": {}}, headers={"traceparent": "nonsense"}
    )
    assert (await client.get(made.headers["location"])).json()["traceparent"] is None


async def test_a18_fifty_parallel_posts_with_one_key_make_one_row(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    body = {"type": "report", "payload": {"n": 1}, "idempotency_key": "one"}
    answers = await asyncio.gather(*(client.post("/v1/jobs", json=body) for _ in range(50)))

    assert {answer.json()["id"] for answer in answers} == {answers[0].json()["id"]}
    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [202]
    created = [answer for answer in answers if not answer.json()["deduplicated"]]
    assert [answer.status_code for answer in created] == [202]
    assert desk.sql("select count(*) from hudhud.job_all") == [(1,)]


async def test_a18_fifty_parallel_posts_of_one_payload_make_one_row(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    body = {"type": "report", "payload": {"n": 1}, "unique_by": "payload"}
    answers = await asyncio.gather(*(client.post("/v1/jobs", json=body) for _ in range(50)))

    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [202]
    assert desk.sql("select count(*) from hudhud.job_all") == [(1,)]


async def test_the_header_is_the_key(client: httpx.AsyncClient) -> None:
    body = {"type": "report", "payload": {}}
    first = await client.post("/v1/jobs", json=body, headers={"idempotency-key": '"k-1"'})
    second = await client.post("/v1/jobs", json={**body, "idempotency_key": "k-1"})

    assert (first.status_code, second.status_code) == (202, 200)
    assert second.json() == {"id": first.json()["id"], "deduplicated": True}


async def test_reject_answers_409_for_a_duplicate(
    client: httpx.AsyncClient, problem: Check
) -> None:
    body = {"type": "report", "payload": {}, "idempotency_key": "secret-key"}
    assert (await client.post("/v1/jobs", json=body)).status_code == 202
    refused = await client.post("/v1/jobs", json={**body, "on_conflict": "reject"})
    problem(refused, 409, "duplicate_job")
    assert "secret-key" not in refused.text


async def test_a_bulk_duplicate_is_named_by_its_place(
    desk: Desk, client: httpx.AsyncClient, problem: Check
) -> None:
    taken = {"type": "report", "payload": {}, "idempotency_key": "secret at position 9"}
    await client.post("/v1/jobs", json=taken)
    jobs = [{"type": "report", "payload": {}}, {**taken, "on_conflict": "reject"}]
    refused = await client.post("/v1/jobs/bulk", json={"jobs": jobs})
    (error,) = errors_of(problem(refused, 409, "duplicate_job"))
    assert error["path"] == "$.jobs[1]"
    assert "secret" not in refused.text
    assert desk.sql("select count(*) from hudhud.job_all") == [(1,)]


async def test_the_same_key_of_two_tenants_makes_two_jobs(
    client: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    body = {"type": "report", "payload": {}, "idempotency_key": "one"}
    answers = [await one.post("/v1/jobs", json=body) for one in (client, stranger)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json()["id"] != answers[1].json()["id"]


async def test_a47_large_integers_keep_every_digit(client: httpx.AsyncClient) -> None:
    numbers = {"id": 9007199254740993, "n": 18446744073709551615, "huge": 10**999 - 1}
    made = await client.post("/v1/jobs", json={"type": "a", "payload": numbers})

    answer = await client.get(made.headers["location"])
    assert answer.json()["payload"] == numbers
    assert '"n": 18446744073709551615' in answer.text
    assert isinstance(answer.json()["id"], str)


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (r'{"a":{"b":{"c\u0000":1}}}', "$.payload.a.b"),
        (r'{"a":["x",{"b":"\u0000"}]}', "$.payload.a[1].b"),
        (r'{"a":"\ud800"}', "$.payload.a"),
        (r'{"a":NaN}', "$.payload.a"),
        (r'{"a":[-Infinity]}', "$.payload.a[0]"),
        (r'{"a":1e999}', "$.payload.a"),
        (f'{{"a":{"9" * 1001}}}', "$.payload.a"),
        ("[]", "$.payload"),
        ("null", "$.payload"),
    ],
)
async def test_a46_what_no_payload_may_hold_is_refused_with_its_path(
    *, client: httpx.AsyncClient, problem: Check, payload: str, path: str
) -> None:
    single = await post_text(client, f'{{"type":"a","payload":{payload}}}')
    assert errors_of(problem(single, 422, "invalid_request"))[0]["path"] == path

    jobs = f'{{"jobs":[{{"type":"a","payload":{{}}}},{{"type":"a","payload":{payload}}}]}}'
    bulk = await post_text(client, jobs, "/bulk")
    expected = path.replace("$", "$.jobs[1]")
    assert errors_of(problem(bulk, 422, "invalid_request"))[0]["path"] == expected


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("type", "a\0", "$.type"),
        ("queue", "q\0", "$.queue"),
        ("idempotency_key", "k\0", "$.idempotency_key"),
        ("correlation_id", "\ud800", "$.correlation_id"),
        ("tags", ["x", "y\0"], "$.tags[1]"),
        ("unique_by", ["f\0"], "$.unique_by[0]"),
    ],
)
async def test_a46_no_option_holds_text_that_cannot_be_stored(
    *, client: httpx.AsyncClient, problem: Check, field: str, value: object, path: str
) -> None:
    text = json.dumps({"type": "a", "payload": {}, field: value})
    answer = await post_text(client, text)
    assert errors_of(problem(answer, 422, "invalid_request"))[0]["path"] == path


@pytest.mark.parametrize(
    "instant", ["2027-01-15T08:00:00", "2027-01-15", "tomorrow", 1_800_000_000]
)
@pytest.mark.parametrize("field", ["available_at", "expires_at"])
async def test_a33_an_instant_without_an_offset_is_refused(
    *, client: httpx.AsyncClient, problem: Check, field: str, instant: object
) -> None:
    body = {"type": "a", "payload": {}, field: instant}
    answer = await client.post("/v1/jobs", json=body)
    assert errors_of(problem(answer, 422, "invalid_request"))[0]["path"] == f"$.{field}"

    bulk = await client.post("/v1/jobs/bulk", json={"jobs": [body]})
    assert errors_of(problem(bulk, 422, "invalid_request"))[0]["path"] == f"$.jobs[0].{field}"


async def test_a33_an_offset_is_kept_as_the_instant_it_means(client: httpx.AsyncClient) -> None:
    body = {"type": "a", "payload": {}, "available_at": "2027-01-15T08:00:00+03:30"}
    made = await client.post("/v1/jobs", json=body)
    job = (await client.get(made.headers["location"])).json()
    assert job["available_at"] == "2027-01-15T04:30:00Z"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"type": None}, "$.type"),
        ({"type": ""}, "$.type"),
        ({"version": True}, "$.version"),
        ({"version": 0}, "$.version"),
        ({"version": "1"}, "$.version"),
        ({"lane": "urgent"}, "$.lane"),
        ({"on_conflict": "ignore"}, "$.on_conflict"),
        ({"delay_seconds": -1}, "$.delay_seconds"),
        ({"delay_seconds": 1, "available_at": "2030-01-01T00:00:00Z"}, "$.delay_seconds"),
        ({"unique_for_seconds": 60}, "$.unique_for_seconds"),
        ({"unique_by": "payload", "idempotency_key": "k"}, "$.unique_by"),
        ({"a b": 1}, '$."a b"'),
        ({"available_at": "9999-12-31T23:59:59-12:00"}, "$.available_at"),
        ({"available_at": "0001-01-01T00:00:00+12:00"}, "$.available_at"),
        ({"max_attempts": 0}, "$.max_attempts"),
        ({"tags": ["x"] * 21}, "$.tags"),
        ({"tenant_id": "other"}, "$.tenant_id"),
    ],
)
async def test_a_wrong_field_is_named(
    *, client: httpx.AsyncClient, problem: Check, change: dict[str, object], path: str
) -> None:
    answer = await client.post("/v1/jobs", json={"type": "a", "payload": {}, **change})
    assert errors_of(problem(answer, 422, "invalid_request"))[0]["path"] == path


async def test_an_announced_contract_is_kept_at_intake(
    desk: Desk, client: httpx.AsyncClient, problem: Check
) -> None:
    schema = {"required": {"amount": "integer"}, "optional": {}, "open": False}
    contract = [
        {
            "type": "pay",
            "version": 1,
            "queue": "bank",
            "lane": "normal",
            "max_attempts": 5,
            "max_crashes": 3,
            "schema": schema,
        }
    ]
    desk.sql("select hudhud.announce(%s::text::jsonb)", json.dumps(contract))

    for payload, path in (({"amount": "1"}, "$.payload.amount"), ({}, "$.payload.amount")):
        answer = await client.post("/v1/jobs", json={"type": "pay", "payload": payload})
        assert errors_of(problem(answer, 422, "invalid_request"))[0]["path"] == path
    odd = {"type": "pay", "payload": {"amount": 1, "a must": 1}}
    (error,) = errors_of(problem(await client.post("/v1/jobs", json=odd), 422, "invalid_request"))
    assert error == {"path": '$.payload."a must"', "detail": "is not a field of this type."}
    fine = await client.post("/v1/jobs", json={"type": "pay", "payload": {"amount": 1}})
    assert fine.status_code == 202


PAST, FUTURE = "2020-01-01T00:00:00Z", "2090-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "change",
    [
        {"expires_at": PAST},
        {"expires_at": FUTURE, "available_at": FUTURE},
        {"expires_at": FUTURE, "delay_seconds": 3600, "idempotency_key": "k"},
        {"expires_at": PAST, "idempotency_key": "k", "on_conflict": "replace"},
    ],
)
async def test_a_job_that_expires_before_it_can_run_is_refused(
    *, desk: Desk, client: httpx.AsyncClient, problem: Check, change: dict[str, object]
) -> None:
    """By the database's clock; until then a delay may well be shorter."""
    clock = "create or replace function hudhud.clock() returns timestamptz language sql"
    desk.sql(f"{clock} return timestamptz '2089-12-31T23:30:00Z'")
    body = {"type": "a", "payload": {}, **change}
    answer = await client.post("/v1/jobs", json=body)
    (error,) = errors_of(problem(answer, 422, "invalid_request"))
    assert error["path"] == "$.expires_at"
    bulk = await client.post("/v1/jobs/bulk", json={"jobs": [{"type": "a", "payload": {}}, body]})
    (error,) = errors_of(problem(bulk, 422, "invalid_request"))
    assert error["path"] == "$.jobs[1].expires_at"
    assert desk.sql("select count(*) from hudhud.job_all") == [(0,)]
    assert desk.sql("select count(*) from hudhud.idempotency") == [(0,)]


async def test_a_repeated_request_is_answered_as_before_although_the_job_has_expired(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    body = {"type": "a", "payload": {}, "idempotency_key": "k", "expires_at": FUTURE}
    first = await client.post("/v1/jobs", json=body)
    assert first.status_code == 202
    clock = "create or replace function hudhud.clock() returns timestamptz language sql"
    desk.sql(f"{clock} return timestamptz '2091-01-01T00:00:00Z'")
    repeated = await client.post("/v1/jobs", json=body)
    assert (repeated.status_code, repeated.json()["id"]) == (200, first.json()["id"])
    bulk = await client.post("/v1/jobs/bulk", json={"jobs": [body]})
    assert bulk.json()["jobs"] == [repeated.json()]


async def test_bulk_is_accepted_whole_or_not_at_all(desk: Desk, client: httpx.AsyncClient) -> None:
    jobs = [{"type": "a", "payload": {"n": n}} for n in range(3)]
    refused = await client.post("/v1/jobs/bulk", json={"jobs": [*jobs, {"type": "a"}]})
    assert refused.status_code == 422
    assert desk.sql("select count(*) from hudhud.job_all") == [(0,)]

    accepted = await client.post("/v1/jobs/bulk", json={"jobs": jobs})
    assert accepted.status_code == 202
    ids = [one["id"] for one in accepted.json()["jobs"]]
    rows = desk.sql("select id::text, payload -> 'n' from hudhud.job_all order by id")
    assert rows == list(zip(ids, range(3), strict=True))


async def test_a_payload_over_the_limit_answers_413(
    client: httpx.AsyncClient, problem: Check
) -> None:
    answer = await client.post("/v1/jobs", json={"type": "a", "payload": {"x": "y" * 70_000}})
    problem(answer, 413, "payload_too_large")


async def test_a_body_over_the_limit_answers_413_however_it_is_sent(
    client: httpx.AsyncClient, problem: Check
) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b'{"type":"a","payload":{"x":"'
        for _ in range(200):
            yield b"y" * 10_000
        yield b'"}}'

    headers = {"content-type": "application/json"}
    chunked = await client.post("/v1/jobs", content=parts(), headers=headers)
    problem(chunked, 413, "body_too_large")
    whole = await post_text(client, json.dumps({"x": "y" * 2_000_000}))
    problem(whole, 413, "body_too_large")


@pytest.mark.parametrize("text", ["{", "", "\x00", '{"a":1,}', "[" * 100_000, "1" * 5_000])
async def test_what_is_not_json_answers_400(
    client: httpx.AsyncClient, problem: Check, text: str
) -> None:
    problem(await post_text(client, text), 400, "malformed_json")


async def test_json_that_is_no_object_answers_422(
    client: httpx.AsyncClient, problem: Check
) -> None:
    assert (
        errors_of(problem(await post_text(client, "[]"), 422, "invalid_request"))[0]["path"] == "$"
    )


async def test_another_media_type_answers_415(client: httpx.AsyncClient, problem: Check) -> None:
    headers = {"content-type": "text/plain"}
    problem(
        await client.post("/v1/jobs", content="{}", headers=headers), 415, "unsupported_media_type"
    )
    assert (await client.post("/v1/jobs", content="{}")).status_code == 415
