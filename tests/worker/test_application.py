"""Laws of the application object on a database: enqueue where you are, run what was defined."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.rows import scalar_row

from hudhud import DuplicateJobError, Hudhud, InvalidJobError
from hudhud.config import WorkerConfig
from hudhud.worker.worker import Addresses, Worker
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from uuid import UUID

    from hudhud import Context
    from hudhud.worker.runner import Attempt
    from tests.support.server import Server


class Shop:
    """An application with one handler, and what its runs saw."""

    def __init__(self, database: str) -> None:
        self.app = Hudhud(database, middleware=[self.outer, self.inner])
        self.seen: list[object] = []
        self.send = self.app.handler("receipt.send", queue="mail")(self.send_receipt)
        self.app.lifespan(self.clients)

    async def clients(self) -> AsyncGenerator[str]:
        self.seen.append("opened")
        yield "client"
        self.seen.append("closed")

    async def outer(self, ctx: Context, call_next: Attempt) -> object:
        self.seen.append("outer")
        return await call_next(ctx)

    async def inner(self, ctx: Context, call_next: Attempt) -> object:
        self.seen.append("inner")
        return await call_next(ctx)

    async def send_receipt(self, ctx: Context, order_id: int) -> None:
        self.seen.append((ctx.state, ctx.tenant_id, order_id))


@pytest.fixture
def shop(database: str) -> Iterator[Shop]:
    shop = Shop(database)
    yield shop
    shop.app.close()


def count(database: str) -> int:
    with psycopg.connect(database, prepare_threshold=None) as connection:
        cursor = connection.cursor(row_factory=scalar_row)
        return int(cursor.execute("select count(*) from hudhud.job").fetchone() or 0)


@asynccontextmanager
async def working(app: Hudhud, server: Server) -> AsyncGenerator[Worker]:
    url = app.database_url
    worker = Worker(app, Addresses(url, server.direct(url)), WorkerConfig(queues=("mail",)))
    task = asyncio.ensure_future(worker.run())
    try:
        yield worker
    finally:
        worker.ask_to_stop()
        async with asyncio.timeout(60):
            await task


def test_a_job_lives_and_dies_with_the_transaction(shop: Shop, database: str) -> None:
    with psycopg.connect(database, prepare_threshold=None) as connection:
        shop.app.enqueue(connection, shop.send, order_id=1)
        connection.rollback()
    assert count(database) == 0
    with shop.app.transaction() as connection:
        shop.app.enqueue(connection, shop.send, order_id=1)
    assert count(database) == 1


def test_a_transaction_that_raises_keeps_nothing(shop: Shop, database: str) -> None:
    with pytest.raises(ZeroDivisionError), shop.app.transaction() as connection:
        shop.app.enqueue(connection, shop.send, order_id=1 // 0)
    assert count(database) == 0


async def test_an_asynchronous_connection_does_the_same(shop: Shop, database: str) -> None:
    async with await psycopg.AsyncConnection.connect(
        database, prepare_threshold=None
    ) as connection:
        await shop.app.aenqueue(connection, shop.send, order_id=1)
        made = await shop.app.aenqueue_many(connection, [shop.send.job(order_id=n) for n in (2, 3)])
        assert [one.deduplicated for one in made] == [False, False]
    assert count(database) == 3


def test_options_reach_the_job(shop: Shop, database: str) -> None:
    keyed = shop.send.using(idempotency_key="order-1", tenant_id="acme")
    with shop.app.transaction() as connection:
        first = shop.app.enqueue(connection, keyed, order_id=1)
        assert shop.app.enqueue(connection, keyed, order_id=1) == first
        (many,) = shop.app.enqueue_many(connection, [keyed.job(order_id=1)])
        assert (many.id, many.deduplicated) == (first, True)
    with pytest.raises(DuplicateJobError), shop.app.transaction() as connection:
        shop.app.enqueue(connection, keyed.using(on_conflict="reject"), order_id=1)
    assert count(database) == 1


def test_a_wrong_payload_does_not_reach_the_database(shop: Shop) -> None:
    with shop.app.transaction() as connection:
        with pytest.raises(InvalidJobError, match="order_id"):
            shop.app.enqueue(connection, shop.send, order_id="one")  # type: ignore[arg-type] # the mistake
        connection.execute("select 1")  # and so has not aborted this transaction


async def test_a_worker_runs_it_inside_the_lifespan_and_the_middleware(
    shop: Shop, server: Server
) -> None:
    with shop.app.transaction() as connection:
        shop.app.enqueue(connection, shop.send.using(tenant_id="acme"), order_id=7)
    async with working(shop.app, server):
        await auntil(lambda: ("client", "acme", 7) in shop.seen)
    assert shop.seen == ["opened", "outer", "inner", ("client", "acme", 7), "closed"]


def cube(_: object, number: int) -> int:
    return number**3


async def test_every_kind_of_handler_returns_its_result(database: str, server: Server) -> None:
    app = Hudhud(database)

    @app.handler("square", queue="mail")
    async def square(_: object, number: int) -> int:
        return number**2

    @app.handler("double", queue="mail")
    def double(_: object, number: int) -> int:
        return number * 2

    as_process = app.handler("cube", queue="mail", kind="process")(cube)
    with app.transaction() as connection:
        wanted: dict[UUID, int] = {
            app.enqueue(connection, square, number=5): 25,
            app.enqueue(connection, double, number=5): 10,
            app.enqueue(connection, as_process, number=5): 125,
        }
    async with working(app, server):
        await auntil(lambda: results(database) == wanted)
    app.close()


def results(database: str) -> dict[UUID, int]:
    with psycopg.connect(database, prepare_threshold=None) as connection:
        rows = connection.execute(
            "select job_id, result from hudhud.outcome where outcome = 'succeed'"
        )
        return dict(rows.fetchall())
