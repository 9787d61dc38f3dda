"""GET /v1/jobs and /v1/jobs/{id}: what a tenant sees of its own jobs, and nobody else does."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from tests.api.conftest import Desk

    Check = Callable[[httpx.Response, int, str], dict[str, object]]

JOB = {"type": "mail.send", "payload": {"to": "a"}}


async def made(client: httpx.AsyncClient, **options: object) -> str:
    answer = await client.post("/v1/jobs", json={**JOB, **options})
    assert answer.status_code == 202, answer.text
    job_id = answer.json()["id"]
    assert isinstance(job_id, str)
    return job_id


async def ids_of(client: httpx.AsyncClient, query: str = "") -> list[str]:
    answer = await client.get(f"/v1/jobs{query}")
    assert answer.status_code == 200, answer.text
    return [job["id"] for job in answer.json()["jobs"]]


async def test_a87_another_tenants_job_is_as_absent_as_a_random_id(
    desk: Desk, client: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    job_id = await made(client)
    before = desk.sql("select * from hudhud.job_status")
    random = str(uuid.uuid4())

    for method, path, body in (
        ("GET", "", None),
        ("POST", "/cancellation", {}),
        ("PUT", "/schedule", {"available_at": None}),
    ):
        answers = [
            await stranger.request(method, f"/v1/jobs/{one}{path}", json=body)
            for one in (job_id, random, "no-id", "%00", job_id.replace("-", ""))
        ]
        assert [answer.status_code for answer in answers] == [404] * 5
        assert len({answer.content for answer in answers}) == 1
        assert len({tuple(answer.headers.items()) for answer in answers}) == 1

    assert await ids_of(stranger) == []
    assert await ids_of(stranger, "?type=mail.send&status=pending") == []
    assert await ids_of(stranger, f"?after={uuid.UUID(int=2**128 - 1)}") == []
    assert desk.sql("select * from hudhud.job_status") == before


async def test_a87_waiting_for_another_tenants_job_answers_at_once(
    desk: Desk, client: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    job_id = await made(client)
    answer = await stranger.get(f"/v1/jobs/{job_id}", headers={"prefer": "wait=30"})
    assert answer.status_code == 404
    assert "preference-applied" not in answer.headers
    assert desk.app.state.face.waits.count == 0


async def test_a_wait_ends_when_the_job_does(desk: Desk, client: httpx.AsyncClient) -> None:
    job_id = await made(client, delay_seconds=3600)
    waiting = asyncio.create_task(
        client.get(f"/v1/jobs/{job_id}", headers={"prefer": "respond-async, wait=30"})
    )
    await auntil(lambda: desk.app.state.face.waits.count == 1)
    assert not waiting.done()
    assert (await client.post(f"/v1/jobs/{job_id}/cancellation", json={})).status_code == 200

    answer = await waiting
    assert answer.json()["status"] == "cancelled"
    assert answer.headers["preference-applied"] == "wait=30"


async def test_a_wait_that_runs_out_shows_the_job_as_it_is(client: httpx.AsyncClient) -> None:
    job_id = await made(client)
    answer = await client.get(f"/v1/jobs/{job_id}", headers={"prefer": "wait=1"})
    assert answer.json()["status"] == "pending"
    assert answer.headers["preference-applied"] == "wait=1"


async def test_a_wait_is_found_behind_what_is_quoted(client: httpx.AsyncClient) -> None:
    prefer = {"prefer": 'note="a, wait=9", wait=1'}
    answer = await client.get(f"/v1/jobs/{await made(client)}", headers=prefer)
    assert answer.headers["preference-applied"] == "wait=1"


async def test_a_wait_is_cut_to_what_is_granted(desk: Desk, client: httpx.AsyncClient) -> None:
    job_id = await made(client)
    waiting = asyncio.create_task(
        client.get(f"/v1/jobs/{job_id}", headers={"prefer": 'wait="999"'})
    )
    await auntil(lambda: desk.app.state.face.waits.count == 1)
    await client.post(f"/v1/jobs/{job_id}/cancellation", json={})
    assert (await waiting).headers["preference-applied"] == "wait=30"


@pytest.mark.parametrize(
    "prefer",
    [
        *("", "wait=0", "wait", "wait=x", "await=5", "return=minimal"),
        *('note="a, wait=5"', 'note="\\", wait=5"', 'wait="x, wait=5"'),
    ],
)
async def test_without_a_wait_the_answer_comes_at_once(
    client: httpx.AsyncClient, prefer: str
) -> None:
    answer = await client.get(f"/v1/jobs/{await made(client)}", headers={"prefer": prefer})
    assert answer.status_code == 200
    assert "preference-applied" not in answer.headers


async def test_those_who_wait_hold_no_connection(desk: Desk, client: httpx.AsyncClient) -> None:
    job_id = await made(client)
    waiting = [
        asyncio.create_task(client.get(f"/v1/jobs/{job_id}", headers={"prefer": "wait=30"}))
        for _ in range(60)
    ]
    await auntil(lambda: desk.app.state.face.waits.count == 60)
    other = await made(client)
    assert (await client.get(f"/v1/jobs/{other}")).status_code == 200

    await client.post(f"/v1/jobs/{job_id}/cancellation", json={})
    assert {answer.json()["status"] for answer in await asyncio.gather(*waiting)} == {"cancelled"}
    assert desk.app.state.face.waits.count == 0


async def test_pages_hold_every_job_once_newest_first(client: httpx.AsyncClient) -> None:
    ids = [await made(client) for _ in range(7)]
    found: list[str] = []
    answer = (await client.get("/v1/jobs?limit=3")).json()
    while True:
        found += [job["id"] for job in answer["jobs"]]
        if answer["next"] is None:
            break
        answer = (await client.get(f"/v1/jobs?limit=3&after={answer['next']}")).json()
    assert found == sorted(ids, reverse=True)


async def test_filters_choose_jobs(client: httpx.AsyncClient) -> None:
    plain = await made(client)
    tagged = await made(client, tags=["x", "y"])
    queued = await made(client, queue="other")
    later = await made(client, delay_seconds=60)
    typed = await made(client, type="b")
    ended = await made(client)
    await client.post(f"/v1/jobs/{ended}/cancellation", json={})

    assert await ids_of(client, "?tag=y") == [tagged]
    assert await ids_of(client, "?queue=other") == [queued]
    assert await ids_of(client, "?type=b") == [typed]
    assert await ids_of(client, "?status=cancelled") == [ended]
    pending = {plain, tagged, queued, later, typed}
    assert set(await ids_of(client, "?status=pending")) == pending
    assert await ids_of(client, "?status=dead") == []
    assert await ids_of(client, "?status=running") == []


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=x", "status=done", "after=x", "page=2", "type=%00", "tag="],
)
async def test_a_wrong_query_is_refused_and_not_repeated(
    client: httpx.AsyncClient, problem: Check, query: str
) -> None:
    answer = await client.get(f"/v1/jobs?{query}")
    errors = problem(answer, 422, "invalid_request")["errors"]
    assert isinstance(errors, list)
    assert errors[0]["path"] == f"query.{query.partition('=')[0]}"


async def test_a_rare_job_is_found_beyond_what_one_page_looks_at(
    desk: Desk, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudhud.api.document.SCAN_MAX", 5)
    rare = await made(client, tags=["rare"])
    for _ in range(12):
        await made(client)

    pages = 0
    found: list[str] = []
    after = ""
    while True:
        page = (await client.get(f"/v1/jobs?tag=rare{after}")).json()
        pages += 1
        found += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert found == [rare]
    assert pages == 3
    assert len(desk.sql("select id from hudhud.job_all")) == 13


async def test_an_operator_sees_who_did_what_and_a_reader_does_not(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    job_id = await made(client)
    await client.post(f"/v1/jobs/{job_id}/cancellation", json={"reason": "typo"})

    (act,) = (await client.get(f"/v1/jobs/{job_id}")).json()["audit"]
    assert (act["action"], act["reason"]) == ("job.cancel", "typo")
    async with desk.client(scopes=("read",)) as reader:
        shown = (await reader.get(f"/v1/jobs/{job_id}")).json()
    assert "audit" not in shown
    assert "typo" not in str(shown)


async def test_a_cancelled_job_cannot_be_cancelled_again(
    client: httpx.AsyncClient, problem: Check
) -> None:
    job_id = await made(client)
    first = await client.post(f"/v1/jobs/{job_id}/cancellation", json={})
    assert (first.status_code, first.json()) == (200, {"cancellation": "cancelled"})
    second = await client.post(f"/v1/jobs/{job_id}/cancellation", json={})
    problem(second, 409, "move_refused")
    schedule = await client.put(f"/v1/jobs/{job_id}/schedule", json={"available_at": None})
    problem(schedule, 409, "move_refused")


async def test_a_waiting_job_is_rescheduled_and_run_now(client: httpx.AsyncClient) -> None:
    job_id = await made(client, delay_seconds=3600)
    path = f"/v1/jobs/{job_id}"
    answer = await client.put(f"{path}/schedule", json={"available_at": "2031-01-01T00:00:00Z"})
    assert answer.status_code == 200
    assert (await client.get(path)).json()["available_at"] == "2031-01-01T00:00:00Z"

    assert (await client.put(f"{path}/schedule", json={"available_at": None})).status_code == 200
    shown = (await client.get(path)).json()
    assert (shown["status"], shown["waiting_for"]) == ("pending", None)


async def test_a_schedule_past_the_expiry_is_refused(
    client: httpx.AsyncClient, problem: Check
) -> None:
    path = f"/v1/jobs/{await made(client, expires_at='2031-01-01T00:00:00Z')}/schedule"
    refused = await client.put(path, json={"available_at": "2031-01-01T00:00:00Z"})
    errors = problem(refused, 422, "invalid_request")["errors"]
    assert isinstance(errors, list)
    assert errors[0]["path"] == "$.available_at"
    fine = await client.put(path, json={"available_at": "2030-12-31T23:59:59Z"})
    assert fine.status_code == 200


@pytest.mark.parametrize("body", [{}, {"available_at": "2031-01-01T00:00:00"}, {"at": None}])
async def test_a_wrong_schedule_is_refused(
    client: httpx.AsyncClient, problem: Check, body: dict[str, object]
) -> None:
    answer = await client.put(f"/v1/jobs/{await made(client)}/schedule", json=body)
    problem(answer, 422, "invalid_request")


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ('{"a": ' + "[" * 2_000 + "]" * 2_000 + "}", '{"a": ' + "[" * 2_000 + "]" * 2_000 + "}"),
        ('{"a": 1' + "0" * 309 + ".5}", {"a": "1" + "0" * 309 + ".5"}),
    ],
    ids=["deep", "large"],
)
async def test_what_no_worker_can_read_is_shown_all_the_same(
    *, desk: Desk, client: httpx.AsyncClient, payload: str, shown: object
) -> None:
    ((job_id,),) = desk.sql(
        "insert into hudhud.job (id, shard, version, lane, max_attempts, created_at, tenant_id,"
        " type, queue, payload) values (hudhud.new_id(), 0, 1, 2, 1, now(), 'acme', 'a', 'default',"
        " %s::text::jsonb) returning id",
        payload,
    )
    answer = await client.get(f"/v1/jobs/{job_id}")
    assert answer.status_code == 200
    assert answer.json()["payload"] == shown
