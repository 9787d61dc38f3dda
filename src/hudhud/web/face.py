"""What every route of the HTTP face stands on, and how a route gets at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from fastapi import Request  # noqa: TC002 - FastAPI reads the annotation when it runs
from fastapi.security import HTTPBearer

from hudhud.web.auth import Keys, denied
from hudhud.web.database import Database
from hudhud.web.metrics import Metrics
from hudhud.web.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hudhud.config import Config
    from hudhud.web.auth import Caller

CONNECTIONS_MAX = 10
"""Connections of one process of the HTTP face; each is held for one statement only."""

bearer = HTTPBearer(auto_error=False, description="An API key: `Bearer hk_<id>_<secret>`.")
"""Tells OpenAPI how callers prove who they are; `caller_with` is what checks it."""


@dataclass(frozen=True, slots=True)
class Face:
    """The parts that routes share; made once per app, opened and closed with it."""

    config: Config
    database: Database
    keys: Keys
    waits: Waits
    metrics: Metrics

    async def open(self) -> None:
        """Start what runs beside the requests."""
        await self.database.open()

    async def close(self) -> None:
        """Stop it again, those who wait first."""
        await self.waits.close()
        await self.database.close()


def make_face(config: Config, database_url: str) -> Face:
    """Return the parts for one app, not yet opened."""
    database = Database(database_url, connections_max=CONNECTIONS_MAX)
    return Face(config, database, Keys(database), Waits(database), Metrics(database))


def face_of(request: Request) -> Face:
    """Return the parts that this request's app stands on."""
    return cast("Face", request.app.state.face)


def caller_with(scope: str) -> Callable[[Request], Awaitable[Caller]]:
    """Return the dependency that lets only callers with a scope through.

    Args:
        scope: One of `enqueue publish read operate approve`.

    Returns:
        A FastAPI dependency. It raises ProblemError: 401 without a valid key, 403 when the key
        lacks the scope.
    """

    async def caller(request: Request) -> Caller:
        found = await face_of(request).keys.caller(request.headers.get("authorization", ""))
        if scope not in found.scopes:
            raise denied(scope)
        return found

    return caller
