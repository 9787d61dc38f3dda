"""The rest of the HTTP face: health, metrics, problems for everything, a database that is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from hudhud import config
from hudhud.asgi import create_app
from hudhud.errors import ConfigError
from tests.api.conftest import desk_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.api.conftest import Desk

    Check = Callable[[httpx.Response, int, str], dict[str, object]]

AWAY = "host=127.0.0.1 port=1 user=nobody dbname=nothing"


async def test_health_asks_for_no_key(desk: Desk) -> None:
    async with desk.client() as client:
        del client.headers["authorization"]
        assert (await client.get("/healthz")).json() == {"status": "alive"}
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        assert (await client.get("/metrics")).status_code == 200


async def test_metrics_tell_depth_age_dead_and_workers_of_each_queue(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    for _ in range(3):
        await client.post("/v1/jobs", json={"type": "a", "payload": {}, "queue": "mail"})
    await client.post("/v1/jobs", json={"type": "a", "payload": {}, "delay_seconds": 60})
    answer = await client.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert 'hudhud_jobs_ready{queue="mail"} 3.0' in lines
    assert any(line.startswith('hudhud_oldest_ready_seconds{queue="mail"} ') for line in lines)
    assert 'hudhud_jobs_dead{queue="mail"} 0.0' in lines
    assert "hudhud_workers 0.0" in lines
    assert "hudhud_counts_capped 0.0" in lines
    assert "hudhud_jobs_made_ready_total 3.0" in lines
    assert "acme" not in answer.text
    assert len(desk.sql("select id from hudhud.job_all")) == 4


async def test_metrics_tell_how_far_the_relay_is_behind(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    subscriptions = '[{"name": "a:b", "event_type": "a"}]'
    desk.sql("select hudhud.announce_events('[]', %s)", subscriptions)
    desk.sql("select id from hudhud.publish('a', '{}')")
    lines = (await client.get("/metrics")).text.splitlines()
    assert 'hudhud_subscription_waiting{subscription="a:b"} 1.0' in lines
    assert 'hudhud_subscription_routed_total{subscription="a:b"} 0.0' in lines
    (lag,) = [line for line in lines if line.startswith("hudhud_subscription_oldest_seconds{")]
    assert float(lag.split()[-1]) > 0


async def test_metrics_stop_counting_at_their_cap(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudhud.web.metrics.COUNT_MAX", 2)
    jobs = [{"type": "a", "payload": {}}] * 5
    await client.post("/v1/jobs/bulk", json={"jobs": jobs})
    lines = (await client.get("/metrics")).text.splitlines()
    assert 'hudhud_jobs_ready{queue="default"} 2.0' in lines
    assert "hudhud_counts_capped 1.0" in lines


async def test_what_does_not_exist_is_a_problem_that_repeats_nothing(
    client: httpx.AsyncClient, problem: Check
) -> None:
    answer = await client.get("/v1/queues/%3CiMg%20src=x%20onerror=alert(1)%3E")
    problem(answer, 404, "not_found")
    assert "iMg" not in answer.text
    problem(await client.get("/v1/jobs/"), 404, "not_found")


async def test_a_wrong_method_names_the_right_ones(
    client: httpx.AsyncClient, problem: Check
) -> None:
    answer = await client.delete("/v1/jobs")
    problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, POST"


async def test_a_fault_of_ours_says_nothing_of_its_cause(
    *, desk: Desk, client: httpx.AsyncClient, problem: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        message = "a secret detail"
        raise RuntimeError(message)

    monkeypatch.setattr(type(desk.app.state.face.database), "read", fail)
    answer = await client.get("/v1/jobs")
    problem(answer, 500, "internal_error")
    assert "secret" not in answer.text


async def test_a_fault_of_the_databases_is_recorded_without_the_row(
    *, desk: Desk, client: httpx.AsyncClient, problem: Check, caplog: pytest.LogCaptureFixture
) -> None:
    """It said that it had been recorded; the detail of the error repeats the payload."""
    desk.sql("alter table hudhud.job add check (type <> 'odd')")
    answer = await client.post("/v1/jobs", json={"type": "odd", "payload": {"a": "private"}})
    problem(answer, 500, "internal_error")
    assert "POST /v1/jobs failed: CheckViolation 23514" in caplog.text
    assert "private" not in caplog.text + answer.text


async def test_what_is_too_large_for_the_database_is_the_callers_fault(
    desk: Desk, client: httpx.AsyncClient, problem: Check
) -> None:
    """Told that the database is away, the caller would repeat it for ever."""
    desk.sql(
        "create function public.is_small() returns boolean language plpgsql as"
        " $$ begin raise exception using errcode = '54000', message = 'too large'; end $$"
    )
    desk.sql("alter table hudhud.job add check (public.is_small())")
    answer = await client.post("/v1/jobs", json={"type": "a", "payload": {}})
    problem(answer, 422, "invalid_request")


async def test_without_a_database_the_face_lives_and_answers_503(problem: Check) -> None:
    async with (
        desk_on(AWAY) as desk,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(desk.app), base_url="http://hudhud"
        ) as client,
    ):
        assert (await client.get("/healthz")).status_code == 200
        answer = await client.get("/readyz")
        problem(answer, 503, "database_unavailable")
        assert answer.headers["retry-after"] == "1"
        key = f"Bearer hk_{'0' * 32}_{'A' * 43}"
        job = {"type": "a", "payload": {}}
        refused = await client.post("/v1/jobs", json=job, headers={"authorization": key})
        problem(refused, 503, "database_unavailable")


async def test_a_database_without_our_schema_answers_503(
    desk: Desk, client: httpx.AsyncClient, problem: Check
) -> None:
    await client.get("/v1/jobs")
    desk.sql("drop schema hudhud cascade")
    for path in ("/readyz", "/v1/jobs", "/metrics"):
        problem(await client.get(path), 503, "database_unavailable")


async def test_a_schema_that_lacks_a_function_is_not_ready(
    desk: Desk, client: httpx.AsyncClient, problem: Check
) -> None:
    desk.sql("drop function hudhud.rescue")
    problem(await client.get("/readyz"), 503, "database_unavailable")


async def test_requests_go_on_after_the_database_dropped_every_connection(
    desk: Desk, client: httpx.AsyncClient
) -> None:
    assert (await client.get("/v1/jobs")).status_code == 200
    desk.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    assert (await client.get("/v1/jobs")).status_code == 200


def test_an_app_without_a_database_is_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match="HUDHUD_DATABASE_URL"):
        create_app(config.load(env={}, arguments={}))


async def test_nothing_that_is_served_loads_from_elsewhere(
    client: httpx.AsyncClient, problem: Check
) -> None:
    """A network of an operator may have no way out, and a third party's scripts no way in."""
    described = (await client.get("/openapi.json")).json()["paths"]
    for path in described:
        answer = await client.get(path.replace("{job_id}", "0").replace("{event_id}", "0"))
        assert "html" not in answer.headers["content-type"], path
    for path in ("/docs", "/redoc", "/docs/oauth2-redirect"):
        problem(await client.get(path), 404, "not_found")


async def test_openapi_describes_every_route_and_body(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert set(document["paths"]) == {
        "/v1/jobs",
        "/v1/jobs/bulk",
        "/v1/jobs/{job_id}",
        "/v1/jobs/{job_id}/cancellation",
        "/v1/jobs/{job_id}/schedule",
        "/v1/events",
        "/v1/events/bulk",
        "/v1/events/{event_id}",
        "/healthz",
        "/readyz",
        "/metrics",
    }
    body = document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]
    assert {"type", "payload", "idempotency_key"} <= set(body["schema"]["properties"])
    bulk = document["paths"]["/v1/jobs/bulk"]["post"]["requestBody"]["content"]["application/json"]
    assert bulk["schema"]["properties"]["jobs"]["items"]["properties"]["lane"]
    for methods in document["paths"].values():
        for described in methods.values():
            assert "422" not in described["responses"]
            assert "application/problem+json" in described["responses"]["default"]["content"]
