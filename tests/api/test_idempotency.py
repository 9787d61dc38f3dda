"""A88. `Idempotency-Key` on every POST: done once, answered again, nothing left by a failure."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx
import psycopg
import pytest

from tests.api.conftest import Desk, desk_on
from tests.support.pooler import pooler
from tests.support.proxy import proxy
from tests.support.server import database_of
from tests.support.wait import PAUSE_SECONDS, auntil, until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator

    from tests.support.server import Server

    Check = Callable[[httpx.Response, int, str], dict[str, object]]

Body: TypeAlias = dict[str, object]
SCOPES = ("enqueue", "publish", "read", "operate")
KEY = {"idempotency-key": "the-key"}
JOB: Body = {"type": "report", "payload": {"n": 1}}
EVENT: Body = {"type": "paid", "payload": {"n": 1}, "aggregate": {"type": "order", "id": "7"}}
# Everything that a request may write, but for the keys themselves.
WRITTEN = (
    "select (select count(*) from hudhud.job_all) + (select count(*) from hudhud.audit"
    " where action <> 'key.create') + (select count(*) from hudhud.cancel_request)"
    " + (select count(*) from hudhud.event)"
)


@dataclass(frozen=True)
class Route:
    """A POST route, and two requests to it that differ."""

    body: Body
    other: Body
    prepare: Callable[[httpx.AsyncClient], Awaitable[str]] | None = None


async def made(client: httpx.AsyncClient) -> str:
    return str((await client.post("/v1/jobs", json=JOB)).json()["id"])


# Every POST route there is; a new one without an entry fails the first test, and then all others.
ROUTES: dict[str, Route] = {
    "/v1/jobs": Route(JOB, {**JOB, "payload": {"n": 2}}),
    "/v1/jobs/bulk": Route({"jobs": [JOB, JOB]}, {"jobs": [JOB]}),
    "/v1/jobs/{job_id}/cancellation": Route({"reason": "enough"}, {}, made),
    "/v1/events": Route(EVENT, {**EVENT, "payload": {}}),
    "/v1/events/bulk": Route({"events": [EVENT, EVENT]}, {"events": [EVENT]}),
}
EACH = pytest.mark.parametrize("path", ROUTES)


@pytest.fixture
async def client(desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of tenant acme that may do everything."""
    async with desk.client(scopes=SCOPES) as opened:
        yield opened


def written(desk: Desk) -> int:
    ((amount,),) = desk.sql(WRITTEN)
    assert isinstance(amount, int)
    return amount


async def filled(client: httpx.AsyncClient, path: str) -> str:
    """Return the path of a resource that exists."""
    prepare = ROUTES[path].prepare
    return path.replace("{job_id}", await prepare(client)) if prepare else path


def is_replay(answer: httpx.Response) -> bool:
    return bool(answer.headers.get("idempotent-replayed") == "true")


def own(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """Return all of an answer that a replay of it must have."""
    headers = {name: text for name, text in answer.headers.items() if name != "idempotent-replayed"}
    return answer.status_code, answer.content, headers


async def test_every_post_route_is_held_here(desk: Desk) -> None:
    paths = desk.app.openapi()["paths"]
    assert {path for path, methods in paths.items() if "post" in methods} == set(ROUTES)


@EACH
async def test_a_repeated_request_is_answered_as_it_was_and_done_once(
    desk: Desk, client: httpx.AsyncClient, path: str
) -> None:
    place = await filled(client, path)
    first = await client.post(place, json=ROUTES[path].body, headers=KEY)
    assert first.is_success
    assert not is_replay(first)
    done = written(desk)
    for _ in range(3):
        again = await client.post(place, json=ROUTES[path].body, headers=KEY)
        assert is_replay(again)
        assert own(again) == own(first)
    assert written(desk) == done


@EACH
async def test_another_request_under_the_same_key_is_refused_and_not_done(
    *, desk: Desk, client: httpx.AsyncClient, problem: Check, path: str
) -> None:
    place = await filled(client, path)
    first = await client.post(place, json=ROUTES[path].body, headers=KEY)
    done = written(desk)
    refused = await client.post(place, json=ROUTES[path].other, headers=KEY)
    problem(refused, 422, "key_reused")
    assert "the-key" not in refused.text
    assert written(desk) == done
    again = await client.post(place, json=ROUTES[path].body, headers=KEY)
    assert own(again) == own(first)


@EACH
async def test_ten_equal_requests_at_once_are_done_once(
    *, desk: Desk, client: httpx.AsyncClient, problem: Check, path: str
) -> None:
    place = await filled(client, path)
    before = written(desk)
    answers = await asyncio.gather(
        *(client.post(place, json=ROUTES[path].body, headers=KEY) for _ in range(10))
    )
    (first,) = [one for one in answers if one.is_success and not is_replay(one)]
    for answer in answers:
        if answer.is_success:
            assert own(answer) == own(first)
        else:
            problem(answer, 409, "in_progress")
            assert int(answer.headers["retry-after"]) > 0
    once = written(desk) - before
    again = await client.post(place, json=ROUTES[path].body, headers=KEY)
    assert own(again) == own(first)
    assert written(desk) - before == once > 0


@EACH
async def test_the_same_key_of_another_tenant_is_another_key(
    *, desk: Desk, client: httpx.AsyncClient, path: str
) -> None:
    async with desk.client("other", SCOPES) as stranger:
        for one in (client, stranger):
            place = await filled(one, path)
            answer = await one.post(place, json=ROUTES[path].body, headers=KEY)
            assert answer.is_success
            assert not is_replay(answer)
    tenants = desk.sql("select tenant_id from hudhud.idempotency where use = 'http' order by 1")
    assert tenants == [("acme",), ("other",)]


@EACH
async def test_a_request_without_a_key_is_one_of_its_own(
    *, desk: Desk, client: httpx.AsyncClient, path: str
) -> None:
    for _ in range(2):
        before = written(desk)
        place = await filled(client, path)
        answer = await client.post(place, json=ROUTES[path].body)
        assert answer.is_success
        assert written(desk) > before
    assert desk.sql("select key from hudhud.idempotency where use = 'http'") == []


@EACH
async def test_a_request_that_is_not_allowed_finds_nothing_out(
    *, desk: Desk, client: httpx.AsyncClient, problem: Check, path: str
) -> None:
    place = await filled(client, path)
    await client.post(place, json=ROUTES[path].body, headers=KEY)
    async with desk.client(scopes=("read",)) as reader:
        refused = await reader.post(place, json=ROUTES[path].body, headers=KEY)
        problem(refused, 403, "scope_missing")


@EACH
async def test_openapi_names_the_header(client: httpx.AsyncClient, path: str) -> None:
    described = (await client.get("/openapi.json")).json()["paths"][path]["post"]
    headers = [one for one in described["parameters"] if one["in"] == "header"]
    assert [(one["name"], one["required"]) for one in headers] == [("Idempotency-Key", False)]


async def test_the_order_of_fields_and_the_space_between_make_no_other_request(
    client: httpx.AsyncClient,
) -> None:
    headers = {**KEY, "content-type": "application/json"}
    first = await client.post(
        "/v1/jobs", content='{"type":"a","payload":{"x":1,"y":[2]}}', headers=headers
    )
    again = await client.post(
        "/v1/jobs", content='{ "payload": {"y": [2], "x": 1},\n "type": "a" }', headers=headers
    )
    assert own(again) == own(first)


async def test_a_key_is_one_of_all_paths(client: httpx.AsyncClient, problem: Check) -> None:
    """The caller's name for one intent: on another path it would be a second one."""
    assert (await client.post("/v1/jobs", json=JOB, headers=KEY)).status_code == 202
    bulk = await client.post("/v1/jobs/bulk", json={"jobs": [JOB]}, headers=KEY)
    problem(bulk, 422, "key_reused")
    one, other = [await made(client) for _ in range(2)]
    act = {"idempotency-key": "cancel"}
    path = "/v1/jobs/{}/cancellation"
    assert (await client.post(path.format(one), json={}, headers=act)).is_success
    refused = await client.post(path.format(other), json={}, headers=act)
    problem(refused, 422, "key_reused")


async def test_a_request_in_progress_elsewhere_is_told_so_and_not_waited_for(
    desk: Desk, client: httpx.AsyncClient, problem: Check
) -> None:
    with psycopg.connect(desk.database) as twin:
        twin.execute("select hudhud.take_request('acme', 'the-key', 'of another face')")
        refused = await client.post("/v1/jobs", json=JOB, headers=KEY)
        problem(refused, 409, "in_progress")
        assert refused.headers["retry-after"] == "1"
        assert desk.sql("select count(*) from hudhud.job_all") == [(0,)]
    assert (await client.post("/v1/jobs", json=JOB, headers=KEY)).status_code == 202


async def test_after_a_500_the_retry_runs_afresh(
    desk: Desk, client: httpx.AsyncClient, problem: Check
) -> None:
    desk.sql("alter table hudhud.job add constraint odd check (type <> 'report')")
    problem(await client.post("/v1/jobs", json=JOB, headers=KEY), 500, "internal_error")
    assert desk.sql("select key from hudhud.idempotency") == []
    desk.sql("alter table hudhud.job drop constraint odd")

    answer = await client.post("/v1/jobs", json=JOB, headers=KEY)
    assert answer.status_code == 202
    assert not is_replay(answer)
    assert written(desk) == 1


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"type": "report", "payload": []}, 422),
        ({"type": "report", "payload": {"x": "y" * 70_000}}, 413),
        ({"type": "report", "payload": {}, "expires_at": "2020-01-01T00:00:00Z"}, 422),
        ({"type": "report", "payload": {}, "idempotency_key": "t", "on_conflict": "reject"}, 409),
    ],
)
async def test_a_refused_request_leaves_its_key_free_for_the_corrected_one(
    *, desk: Desk, client: httpx.AsyncClient, wrong: Body, status: int
) -> None:
    await client.post("/v1/jobs", json={**JOB, "idempotency_key": "t"})
    refused = await client.post("/v1/jobs", json=wrong, headers=KEY)
    assert refused.status_code == status
    assert desk.sql("select key from hudhud.idempotency") == [("t",)]
    assert (await client.post("/v1/jobs", json=JOB, headers=KEY)).status_code == 202


@asynccontextmanager
async def client_through(url: str, desk: Desk) -> AsyncGenerator[httpx.AsyncClient]:
    """Open a face that reaches the same database another way, and give a client of it."""
    async with (
        desk_on(url) as other,
        Desk(other.app, desk.database).client(scopes=SCOPES) as client,
    ):
        yield client


@EACH
async def test_an_answer_lost_between_commit_and_face_is_found_by_the_retry(
    *, desk: Desk, server: Server, path: str, problem: Check
) -> None:
    async with (
        proxy(server, desk.database) as between,
        client_through(between.url, desk) as client,
    ):
        place = await filled(client, path)
        before = written(desk)
        between.arm("COMMIT", cut="reply")
        lost = await client.post(place, json=ROUTES[path].body, headers=KEY)
        problem(lost, 503, "database_unavailable")
        assert between.cuts == 1
        once = written(desk) - before
        assert once > 0
        found = await client.post(place, json=ROUTES[path].body, headers=KEY)
        assert found.is_success
        assert is_replay(found)
        assert written(desk) - before == once


async def when_free(client: httpx.AsyncClient) -> httpx.Response:
    """Repeat a request until a session that was lost has let go of its key."""
    answer = await client.post("/v1/jobs", json=JOB, headers=KEY)
    while answer.status_code == 409:
        await asyncio.sleep(PAUSE_SECONDS)
        answer = await client.post("/v1/jobs", json=JOB, headers=KEY)
    return answer


async def test_a_commit_that_never_arrived_leaves_nothing_and_the_retry_runs_afresh(
    desk: Desk, server: Server, problem: Check
) -> None:
    async with (
        proxy(server, desk.database) as between,
        client_through(between.url, desk) as client,
    ):
        between.arm("COMMIT", cut="request")
        lost = await client.post("/v1/jobs", json=JOB, headers=KEY)
        problem(lost, 503, "database_unavailable")
        answer = await when_free(client)
        assert answer.status_code == 202
        assert not is_replay(answer)
    assert desk.sql("select count(*) from hudhud.job_all") == [(1,)]


@asynccontextmanager
async def held_before_the_answer_is_kept(desk: Desk) -> AsyncGenerator[Callable[[], object]]:
    """Let a request with the key stop between its work and its commit, until the block ends.

    Yields what says whether one has stopped there.
    """
    row = (
        "insert into hudhud.idempotency"
        " (tenant_id, use, type, key, shard, created_at, fingerprint, answer)"
        " values ('acme', 'http', '', 'the-key', 0, now(), 'x', '{}')"
    )
    with psycopg.connect(desk.database) as holder:
        holder.execute(row)

        def stopped() -> object:
            return desk.sql(
                "select pid from pg_stat_activity where wait_event_type = 'Lock'"
                " and query like '%%hudhud.keep_answer%%' and datname = current_database()"
            )

        yield stopped
        holder.rollback()


async def test_a_caller_who_goes_away_does_not_stop_what_was_begun(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    async with held_before_the_answer_is_kept(desk) as stopped:
        asked = asyncio.create_task(client.post("/v1/jobs", json=JOB, headers=KEY))
        await auntil(stopped)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    await auntil(lambda: desk.sql("select id from hudhud.job_all"))
    found = await client.post("/v1/jobs", json=JOB, headers=KEY)
    assert is_replay(found)


@pytest.fixture
def face(desk: Desk, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Give an HTTP face in a process of its own, and its address."""
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "hudhud.cli.main", "serve", "--port", "0"],
            env={**os.environ, "HUDHUD_DATABASE_URL": desk.database},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    words = "Uvicorn running on "
    until(lambda: words in log.read_text("utf-8"), 60)
    yield process, log.read_text("utf-8").partition(words)[2].split()[0]
    process.kill()
    process.wait()


async def test_a_process_killed_between_work_and_commit_leaves_nothing(
    desk: Desk, client: httpx.AsyncClient, face: tuple[subprocess.Popen[bytes], str]
) -> None:
    process, url = face
    async with held_before_the_answer_is_kept(desk) as stopped:
        headers = {**KEY, "authorization": client.headers["authorization"]}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as caller:
            asked = asyncio.create_task(caller.post("/v1/jobs", json=JOB))
            await auntil(stopped)
            process.send_signal(signal.SIGKILL)
            with pytest.raises(httpx.TransportError):
                await asked
    # Its session has yet to end; until then the request is in progress.
    answer = await when_free(client)
    assert answer.status_code == 202
    assert not is_replay(answer)
    assert desk.sql("select id::text from hudhud.job_all") == [(answer.json()["id"],)]


async def test_it_works_through_a_pooler_that_lends_its_server_per_transaction(
    desk: Desk, server: Server
) -> None:
    """No state of a session, no named statement: the lock is the transaction's."""
    socket = Path(server.host) / f".s.PGSQL.{server.port}"
    async with (
        pooler(socket, database=database_of(desk.database), user="hudhud") as url,
        client_through(url, desk) as client,
    ):
        asked = (client.post("/v1/jobs", json=JOB, headers=KEY) for _ in range(10))
        assert {answer.status_code for answer in await asyncio.gather(*asked)} <= {202, 409}
        assert is_replay(await client.post("/v1/jobs", json=JOB, headers=KEY))
    assert desk.sql("select count(*) from hudhud.job_all") == [(1,)]


def set_clock(desk: Desk, after: str) -> None:
    desk.sql(
        "create or replace function hudhud.clock() returns timestamptz language sql"
        f" return clock_timestamp() + interval '{after}'"
    )


async def test_when_its_answer_is_forgotten_the_key_still_finds_its_job(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    """The header is the job's key as well, and that holds as long as the job is kept."""
    first = await client.post("/v1/jobs", json=JOB, headers=KEY)
    existing = {"id": first.json()["id"], "deduplicated": True}
    set_clock(desk, "24 hours 1 minute")
    later = await client.post("/v1/jobs", json=JOB, headers=KEY)
    assert (later.status_code, later.json(), is_replay(later)) == (200, existing, False)
    set_clock(desk, "49 hours")
    other = await client.post("/v1/jobs", json={**JOB, "payload": {"n": 9}}, headers=KEY)
    assert (other.status_code, other.json()) == (200, existing)
    assert desk.sql("select count(*) from hudhud.job_all") == [(1,)]


async def test_header_and_body_name_the_same_job(client: httpx.AsyncClient) -> None:
    first = await client.post("/v1/jobs", json=JOB, headers=KEY)
    second = await client.post("/v1/jobs", json={**JOB, "idempotency_key": "the-key"})
    bulk = await client.post(
        "/v1/jobs/bulk", json={"jobs": [{**JOB, "idempotency_key": "the-key"}]}
    )
    expected = {"id": first.json()["id"], "deduplicated": True}
    assert (second.status_code, second.json()) == (200, expected)
    assert bulk.json()["jobs"] == [expected]


@pytest.mark.parametrize("option", [{"idempotency_key": "of the job"}, {"unique_by": "payload"}])
async def test_a_body_that_names_its_jobs_key_has_that_and_the_header_names_the_request(
    desk: Desk, client: httpx.AsyncClient, option: Body
) -> None:
    """So a library that names every request may be used with jobs that have keys."""
    body = {**JOB, **option}
    first = await client.post("/v1/jobs", json=body, headers={"idempotency-key": "one"})
    again = await client.post("/v1/jobs", json=body, headers={"idempotency-key": "one"})
    other = await client.post("/v1/jobs", json=body, headers={"idempotency-key": "two"})
    assert own(again) == own(first)
    assert (other.status_code, other.json()["id"]) == (200, first.json()["id"])
    keys = [key for (key,) in desk.sql("select key from hudhud.idempotency where use = 'enqueue'")]
    assert len(keys) == 1
    assert "one" not in keys


async def test_the_header_of_a_bulk_request_names_the_request_alone(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    jobs = [{**JOB, "idempotency_key": "a"}, JOB]
    answer = await client.post("/v1/jobs/bulk", json={"jobs": jobs}, headers=KEY)
    assert answer.status_code == 202
    assert desk.sql("select key from hudhud.idempotency where use = 'enqueue'") == [("a",)]


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ("k-1", "k-1"),
        ('"k-1"', "k-1"),
        (r'"a \"b\" \\ c"', r'a "b" \ c'),
        ('"k;1"; expires=5', "k;1"),
        ('"', '"'),
        (r'"a\b"', r'"a\b"'),
        ("k 1", "k 1"),
        ("x" * 500, "x" * 500),
    ],
)
async def test_a_key_is_taken_bare_or_as_a_quoted_string(
    *, desk: Desk, client: httpx.AsyncClient, sent: str, key: str
) -> None:
    answer = await client.post("/v1/jobs", json=JOB, headers={"idempotency-key": sent})
    assert answer.status_code == 202
    assert desk.sql("select distinct key from hudhud.idempotency") == [(key,)]


@pytest.mark.parametrize("sent", [[""], ['""'], ["x" * 501], ["a\0b"], ["a", "b"], ["a", "a"]])
@EACH
async def test_a_key_that_cannot_be_kept_is_refused_by_its_place(
    *, client: httpx.AsyncClient, problem: Check, path: str, sent: list[str]
) -> None:
    place = await filled(client, path)
    headers = [("idempotency-key", one) for one in sent]
    answer = await client.post(place, json=ROUTES[path].body, headers=headers)
    errors: Any = problem(answer, 422, "invalid_request")["errors"]
    assert errors[0]["path"] == "header.Idempotency-Key"


async def test_a_key_of_letters_outside_ascii_is_kept(client: httpx.AsyncClient) -> None:
    headers = {b"idempotency-key": "é".encode("latin-1") * 500}
    first = await client.post("/v1/jobs", json=JOB, headers=headers)
    again = await client.post("/v1/jobs", json=JOB, headers=headers)
    assert (first.status_code, own(again)) == (202, own(first))


async def test_a_kept_answer_says_nothing_of_what_was_sent(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    body = {**JOB, "payload": {"note": f"private {uuid.uuid4()}"}}
    await client.post("/v1/jobs", json=body, headers=KEY)
    ((row,),) = desk.sql("select k::text from hudhud.idempotency k where use = 'http'")
    assert "private" not in str(row)
