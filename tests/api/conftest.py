"""An app on a fresh database, and clients that hold keys of it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest

from hudhud import config
from hudhud.asgi import create_app
from hudhud.domain import api_key
from hudhud.drivers import psycopg as driver
from hudhud.store import keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fastapi import FastAPI


@dataclass
class Desk:
    """The app, and what a test needs to call it."""

    app: FastAPI
    database: str

    def client(
        self, tenant: str = "acme", scopes: tuple[str, ...] = ("enqueue", "read", "operate")
    ) -> httpx.AsyncClient:
        """Return a client with a new key."""
        headers = {"authorization": f"Bearer {self.key(tenant, scopes)}"}
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app, raise_app_exceptions=False),
            base_url="http://hudhud",
            headers=headers,
            timeout=60,
        )

    def key(self, tenant: str, scopes: tuple[str, ...]) -> str:
        """Make a key in the database and return its text."""
        secret = api_key.new_secret()
        call = keys.create_key(
            "test", tenant, scopes, secret_hash=api_key.secret_hash(secret), actor="test"
        )
        with psycopg.connect(self.database, autocommit=True) as connection:
            return api_key.key_text(driver.run(connection, call), secret)

    def sql(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """Run a statement and return its rows."""
        with psycopg.connect(self.database, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []


@asynccontextmanager
async def desk_on(database: str) -> AsyncIterator[Desk]:
    """Open an app on a database for the length of a block."""
    app = create_app(config.load(env={}, arguments={"database_url": database}))
    async with app.router.lifespan_context(app):
        yield Desk(app, database)


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Desk]:
    """Give an app on a database of its own."""
    async with desk_on(database) as opened:
        yield opened


@pytest.fixture
async def client(desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of tenant acme that may enqueue, read and operate."""
    async with desk.client() as opened:
        yield opened


@pytest.fixture
async def stranger(desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of another tenant with the same scopes."""
    async with desk.client("other") as opened:
        yield opened


@pytest.fixture
def problem() -> Callable[[httpx.Response, int, str], dict[str, object]]:
    """Give the check that a response is a problem document of a kind."""

    def check(response: httpx.Response, status: int, code: str) -> dict[str, object]:
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
        assert response.headers["x-content-type-options"] == "nosniff"
        document: dict[str, object] = response.json()
        assert document["type"] == f"urn:hudhud:problem:{code}"
        assert document["status"] == status
        return document

    return check
