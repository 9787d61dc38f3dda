"""Is it alive, is it ready, and how much is there to do: for orchestrators and monitors.

These three ask for no key; they tell names of queues and numbers, nothing of a job or a tenant.
"""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from hudhud.store import migrate
from hudhud.store.reads import Read
from hudhud.web.body import answer
from hudhud.web.face import face_of

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def alive() -> Response:
    """Say that this process answers; it does not look at the database."""
    return answer({"status": "alive"})


@router.get("/readyz")
async def ready(request: Request) -> Response:
    """Say whether requests can be served: the database answers and its schema fits.

    503 when it does not, with what to do.
    """
    (row,) = await face_of(request).database.read(Read("schema", {}))
    migrate.require(cast("int", row["number"]), cast("list[str]", row["objects"]))
    return answer({"status": "ready"})


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Show the figures of all queues in Prometheus' text form."""
    return Response(await face_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)
