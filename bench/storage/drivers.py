"""One statement and its rows, through each driver that was compared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg
import psycopg

from storage.server import DSN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


class Session(Protocol):
    """A connection of any driver."""

    async def fetch(self, sql: str, *values: object) -> Sequence[Sequence[Any]]:
        """Run one statement."""
        ...

    async def close(self) -> None:
        """Close the connection."""


async def open_asyncpg() -> Session:
    """asyncpg: binary, prepared once."""
    session: Session = await asyncpg.connect(DSN)
    return session


class Psycopg:
    """psycopg 3, its async or its sync face, results binary or text, prepared at once."""

    def __init__(
        self, connection: psycopg.Connection | psycopg.AsyncConnection, *, binary: bool
    ) -> None:
        """Keep the connection and one cursor."""
        self.connection = connection
        self.cursor = connection.cursor(binary=binary)

    async def fetch(self, sql: str, *values: object) -> Sequence[Sequence[Any]]:
        """Run one statement."""
        text = re.sub(r"\$(\d)", r"%(p\1)s", sql)
        named = {f"p{number}": value for number, value in enumerate(values, 1)}
        if isinstance(self.cursor, psycopg.AsyncCursor):
            await self.cursor.execute(text.encode(), named)
            return await self.cursor.fetchall()
        return self.cursor.execute(text.encode(), named).fetchall()

    async def close(self) -> None:
        """Close."""
        if isinstance(self.connection, psycopg.AsyncConnection):
            await self.connection.close()
        else:
            self.connection.close()


async def open_psycopg_async(*, binary: bool) -> Session:
    """Connect with the async face."""
    connection = await psycopg.AsyncConnection.connect(DSN, autocommit=True, prepare_threshold=0)
    return Psycopg(connection, binary=binary)


async def open_psycopg_sync(*, binary: bool) -> Session:
    """Connect with the sync face: blocks the loop, which has nothing else to do here."""
    connection = psycopg.connect(DSN, autocommit=True, prepare_threshold=0)
    return Psycopg(connection, binary=binary)


DRIVERS: dict[str, Callable[[], Awaitable[Session]]] = {
    "asyncpg": open_asyncpg,
    "psycopg-async-binary": lambda: open_psycopg_async(binary=True),
    "psycopg-async-text": lambda: open_psycopg_async(binary=False),
    "psycopg-sync-binary": lambda: open_psycopg_sync(binary=True),
    "psycopg-sync-text": lambda: open_psycopg_sync(binary=False),
}
