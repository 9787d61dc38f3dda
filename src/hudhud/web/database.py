"""The HTTP face's way to the database: a pool, and one transaction per use of a connection.

Each transaction is committed before the answer goes out, and a connection is held for it only: a
caller who waits for a job holds none. Everything here works through PgBouncer in transaction mode.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool

from hudhud.domain.plain import shown_json
from hudhud.drivers import psycopg as driver
from hudhud.store.reads import Read

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import psycopg
    from psycopg.rows import TupleRow

    from hudhud.store.call import Call, Statement

    Pool: TypeAlias = AsyncConnectionPool[psycopg.AsyncConnection[TupleRow]]

T = TypeVar("T")

CONNECT_SECONDS = 5
ACQUIRE_SECONDS = 2.0
"""How long a request waits for a free connection before it answers 503."""
RECONNECT_SECONDS = 5.0
"""How long the pool tries on its own, with growing pauses; after that each request makes it try."""
STATEMENT_SECONDS = 15.0
"""No transaction of the HTTP face needs more; one that does must not hold its connection."""
LOCK_SECONDS = 2.0
"""How long one waits for what somebody else's transaction holds, as an aggregate."""
_BOUNDS = Read("bounds", {"lock_seconds": LOCK_SECONDS, "idle_seconds": STATEMENT_SECONDS})


class Run(Protocol):
    """Runs statements of one transaction."""

    async def __call__(self, statement: Statement[T], /) -> T:
        """Run one and return what it answers."""
        ...


class Database:
    """A pool of connections that runs our calls and reads."""

    def __init__(self, database_url: str, *, connections_max: int) -> None:
        self._pool: Pool = AsyncConnectionPool(
            database_url,
            min_size=1,
            max_size=connections_max,
            timeout=ACQUIRE_SECONDS,
            reconnect_timeout=RECONNECT_SECONDS,
            open=False,
            check=AsyncConnectionPool.check_connection,
            configure=_configure,
            name="hudhud-http",
            kwargs={
                "autocommit": True,
                "prepare_threshold": None,
                "connect_timeout": CONNECT_SECONDS,
                "application_name": "hudhud-http",
            },
        )

    async def open(self) -> None:
        """Start the pool; a database that is away does not stop the start."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    async def call(self, call: Call[T]) -> T:
        """Run a verb in a transaction of its own and return what it read, after the commit.

        A caller who is cancelled meanwhile does not stop it: half-done work is never left open.

        Raises:
            HudhudError: What the database refused.
            psycopg.OperationalError: When it does not answer; a write is then of unknown outcome.
        """
        return await asyncio.shield(self._run(call))

    async def transact(self, work: Callable[[Run], Awaitable[T]]) -> T:
        """Do several things in one transaction and return what they came to, after the commit.

        Like `call` it goes to its end, whoever is cancelled meanwhile.

        Args:
            work: Gets what runs its statements; what it raises undoes them and goes to the caller.

        Raises:
            HudhudError: What the database refused.
            psycopg.OperationalError: When it does not answer; a write is then of unknown outcome.
        """
        return await asyncio.shield(self._transact(work))

    async def read(self, read: Read) -> list[dict[str, object]]:
        """Return the rows of a read for people, as dicts.

        Raises:
            psycopg.OperationalError: When the database does not answer.
        """
        return await self._run(read)

    async def _transact(self, work: Callable[[Run], Awaitable[T]]) -> T:
        async with (
            asyncio.timeout(STATEMENT_SECONDS),
            self._pool.connection() as connection,
            connection.transaction(),
        ):
            await driver.arun(connection, _BOUNDS)
            return await work(partial(driver.arun, connection))

    async def _run(self, statement: Statement[T]) -> T:
        async with asyncio.timeout(STATEMENT_SECONDS), self._pool.connection() as connection:
            return await driver.arun(connection, statement)


async def _configure(connection: psycopg.AsyncConnection[TupleRow]) -> None:
    set_json_loads(shown_json, connection)
