"""A job through everything: accepted over HTTP, run by a worker, shown with what it came to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hudhud.errors import Permanent
from hudhud.worker.context import Context  # noqa: TC001 - the handler's annotations are read
from tests.support.application import Application, working
from tests.support.wait import auntil

if TYPE_CHECKING:
    import httpx

    from tests.api.conftest import Desk
    from tests.support.server import Server

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def wait_for(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    answer = await client.get(f"/v1/jobs/{job_id}", headers={"prefer": "wait=30"})
    found: dict[str, Any] = answer.json()
    return found


async def made(client: httpx.AsyncClient, type: str, payload: dict[str, object]) -> str:  # noqa: A002
    body = {"type": type, "payload": payload}
    answer = await client.post("/v1/jobs", json=body, headers={"traceparent": TRACE})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def test_a_waiting_caller_gets_the_result_with_its_story(
    desk: Desk, client: httpx.AsyncClient, server: Server
) -> None:
    application = Application()

    @application.handler("add")
    async def add(ctx: Context, a: int, b: int) -> dict[str, int]:
        ctx.log("adding")
        ctx.progress(0.5, "half")
        return {"sum": a + b}

    async with working(application, desk.database, direct_url=server.direct(desk.database)):
        job_id = await made(client, "add", {"a": 9007199254740993, "b": 18446744073709551615})
        job = await wait_for(client, job_id)
    # The lines of a log are written beside the run; the last may come just after its end.
    await auntil(lambda: len(desk.sql("select line from hudhud.log_all")) == 2)
    job = await wait_for(client, job_id)

    assert (job["status"], job["attempts"]) == ("succeeded", 1)
    assert job["result"] == {"sum": 9007199254740993 + 18446744073709551615}
    assert (job["progress"], [line["message"] for line in job["log"]]) == (0.5, ["adding", "half"])
    assert [run["outcome"] for run in job["history"]] == ["succeed"]
    assert job["traceparent"] == TRACE


async def test_a_job_that_died_says_why(
    desk: Desk, client: httpx.AsyncClient, server: Server
) -> None:
    application = Application()

    @application.handler("fail")
    async def fail(_: object) -> None:
        message = "there is no such account"
        raise Permanent(message, code="no_account")

    async with working(application, desk.database, direct_url=server.direct(desk.database)):
        job = await wait_for(client, await made(client, "fail", {}))
    assert (job["status"], job["last_error_code"]) == ("dead", "no_account")
    (run,) = job["history"]
    assert (run["class"], run["code"]) == ("permanent", "no_account")
    assert "there is no such account" in run["error"]
    listed = (await client.get("/v1/jobs?status=dead")).json()["jobs"]
    assert [one["id"] for one in listed] == [job["id"]]


async def test_a87_nobody_else_sees_a_job_while_it_runs_or_its_result(
    desk: Desk, client: httpx.AsyncClient, *, stranger: httpx.AsyncClient, server: Server
) -> None:
    application = Application()
    may_end = asyncio.Event()

    @application.handler("secret")
    async def secret(_: object) -> str:
        await may_end.wait()
        return "the secret"

    async with working(application, desk.database, direct_url=server.direct(desk.database)):
        job_id = await made(client, "secret", {})
        await auntil(lambda: desk.sql("select id from hudhud.job_status where status = 'running'"))
        assert (await client.get("/v1/jobs?status=running")).json()["jobs"][0]["id"] == job_id
        assert (await stranger.get("/v1/jobs?status=running")).json()["jobs"] == []
        assert (await stranger.get(f"/v1/jobs/{job_id}")).status_code == 404
        cancelled = await stranger.post(f"/v1/jobs/{job_id}/cancellation", json={})
        assert cancelled.status_code == 404
        may_end.set()
        assert (await wait_for(client, job_id))["result"] == "the secret"
    answer = await stranger.get(f"/v1/jobs/{job_id}", headers={"prefer": "wait=30"})
    assert answer.status_code == 404
    assert "secret" not in answer.text


async def test_a_running_job_is_asked_to_stop(
    desk: Desk, client: httpx.AsyncClient, server: Server
) -> None:
    application = Application()

    @application.handler("long")
    async def long(_: object) -> None:
        await asyncio.Event().wait()

    async with working(application, desk.database, direct_url=server.direct(desk.database)):
        job_id = await made(client, "long", {})
        await auntil(lambda: desk.sql("select id from hudhud.job_status where status = 'running'"))
        answer = await client.post(f"/v1/jobs/{job_id}/cancellation", json={"reason": "enough"})
        assert (answer.status_code, answer.json()) == (202, {"cancellation": "requested"})
        assert (await wait_for(client, job_id))["status"] == "cancelled"
