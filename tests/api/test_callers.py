"""API keys: who may call, what a key may do, and how soon a revoked one stops."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from hudhud.domain import api_key

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from tests.api.conftest import Desk

    Check = Callable[[httpx.Response, int, str], dict[str, object]]

JOB = {"type": "a", "payload": {}}
JOB_ID = "0199c0de-0000-7000-8000-000000000000"
ROUTES = [
    ("POST", "/v1/jobs", "enqueue"),
    ("POST", "/v1/jobs/bulk", "enqueue"),
    ("GET", "/v1/jobs", "read"),
    ("GET", f"/v1/jobs/{JOB_ID}", "read"),
    ("POST", f"/v1/jobs/{JOB_ID}/cancellation", "operate"),
    ("PUT", f"/v1/jobs/{JOB_ID}/schedule", "operate"),
    ("POST", "/v1/events", "publish"),
    ("POST", "/v1/events/bulk", "publish"),
    ("GET", f"/v1/events/{JOB_ID}", "read"),
]


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
async def test_every_route_wants_a_key_with_its_scope(
    *, desk: Desk, problem: Check, method: str, path: str, scope: str
) -> None:
    others = tuple(one for one in api_key.SCOPES if one != scope)
    async with desk.client(scopes=others) as client:
        problem(await client.request(method, path, json=JOB), 403, "scope_missing")
        del client.headers["authorization"]
        answer = await client.request(method, path, json=JOB)
        problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_key_that_is_not_exactly_right_is_refused(desk: Desk, problem: Check) -> None:
    good = desk.key("acme", ("read",))
    _, key_id, secret = good.split("_", 2)
    wrong = [
        "",
        "Bearer",
        f"Basic {good}",
        f"Bearer {good}x",
        f"Bearer hk_{uuid.uuid4().hex}_{secret}",
        f"Bearer hk_{key_id}_{api_key.new_secret()}",
        f"Bearer hk_{key_id.upper()}_{secret}",
        "Bearer hk_\x00_x",
    ]
    async with desk.client() as client:
        for header in wrong:
            answer = await client.get("/v1/jobs", headers={"authorization": header})
            problem(answer, 401, "unauthorized")
        fine = await client.get("/v1/jobs", headers={"authorization": f"bearer {good}"})
        assert fine.status_code == 200


async def test_a_revoked_key_stops_when_its_short_belief_ends(
    desk: Desk, problem: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudhud.web.auth.CACHE_SECONDS", 0.0)
    key = desk.key("acme", ("read",))
    async with desk.client() as client:
        client.headers["authorization"] = f"Bearer {key}"
        assert (await client.get("/v1/jobs")).status_code == 200
        desk.sql("select hudhud.revoke_key(%s, 'test')", key.split("_")[1])
        problem(await client.get("/v1/jobs"), 401, "unauthorized")


async def test_the_database_keeps_no_secret(desk: Desk) -> None:
    key = desk.key("acme", ("read",))
    secret = key.split("_", 2)[2]
    ((stored,),) = desk.sql("select secret_hash from hudhud.api_key")
    assert stored == api_key.secret_hash(secret)
    assert len(secret) == 43
    ((rows,),) = desk.sql(
        "select string_agg(k::text || a::text, '') from hudhud.api_key k, hudhud.audit a"
    )
    assert secret not in str(rows)
