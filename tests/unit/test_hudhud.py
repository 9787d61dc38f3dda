"""Laws of the `Hudhud` object that need no database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

import hudhud
from hudhud import Hudhud
from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


def test_a_decorated_function_is_still_that_function_to_a_test() -> None:
    app = Hudhud()

    @app.handler("receipt.send", timeout_seconds=10)
    async def send_receipt(ctx: object, order_id: int) -> str:
        return f"{ctx} {order_id}"

    assert asyncio.run(send_receipt("any context", order_id=7)) == "any context 7"
    assert app.registry.find("receipt.send", 1) is send_receipt
    assert send_receipt.timeout_seconds == 10


def test_two_handlers_for_one_contract_are_refused_at_import() -> None:
    app = Hudhud()

    @app.handler("t")
    async def first(_: object) -> None: ...

    with pytest.raises(ConfigError, match="t:1"):

        @app.handler("t")
        async def second(_: object) -> None: ...

    assert app.registry.find("t", 1) is first


async def test_a_lifespan_is_an_async_function_that_yields_once() -> None:
    app = Hudhud()
    steps: list[str] = []

    @app.lifespan
    async def clients() -> AsyncGenerator[str]:
        steps.append("opened")
        yield "client"
        steps.append("closed")

    async with app.lifespan_context() as state:
        assert state == "client"
        assert steps == ["opened"]
    assert steps == ["opened", "closed"]


async def test_a_lifespan_may_be_a_context_manager_already() -> None:
    app = Hudhud()

    @app.lifespan
    @asynccontextmanager
    async def clients() -> AsyncGenerator[str]:
        yield "client"

    async with app.lifespan_context() as state:
        assert state == "client"


async def test_without_a_lifespan_there_is_no_state() -> None:
    async with Hudhud().lifespan_context() as state:
        assert state is None


def test_a_second_lifespan_is_refused() -> None:
    app = Hudhud()

    @app.lifespan
    async def first() -> AsyncGenerator[None]:
        yield

    with pytest.raises(ConfigError):
        app.lifespan(first)


def test_the_database_is_the_one_given_or_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDHUD_DATABASE_URL", "postgresql:///configured")
    assert Hudhud("postgresql:///given").database_url == "postgresql:///given"
    assert Hudhud().database_url == "postgresql:///configured"


def test_an_unnamed_database_is_an_error_where_it_is_needed_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HUDHUD_DATABASE_URL", raising=False)
    app = Hudhud()
    with pytest.raises(ConfigError, match="HUDHUD_DATABASE_URL"), app.transaction():
        pass
    app.close()


def test_the_public_names_are_few_and_all_there() -> None:
    assert len(hudhud.__all__) <= 25
    assert all(hasattr(hudhud, name) for name in hudhud.__all__)
    assert list(hudhud.__all__) == sorted(hudhud.__all__)


def test_an_import_brings_no_extra_along() -> None:
    extras = {"asyncpg", "sqlalchemy", "django", "fastapi", "uvicorn", "typer", "rich", "uvloop"}
    program = "import sys, hudhud; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not extras & set(done.stdout.split())
