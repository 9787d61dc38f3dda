"""psycopg 3: Connection and AsyncConnection, whatever row factory they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.rows import tuple_row

from hudhud.drivers.base import named_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor

    from hudhud.store.call import Statement

T = TypeVar("T")


def run(connection: Connection[Any], statement: Statement[T]) -> T:
    """Run a statement on a connection, in the transaction that it is in."""
    with named_errors, connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(statement.sql(_mark).encode(), statement.named)
        return statement.answer(cursor.fetchall(), _names(cursor))


async def arun(
    connection: AsyncConnection[Any], statement: Statement[T], *, binary: bool = False
) -> T:
    """As `run`, on an asynchronous connection; binary answers are read faster."""
    with named_errors:
        async with connection.cursor(row_factory=tuple_row, binary=binary) as cursor:
            await cursor.execute(statement.sql(_mark).encode(), statement.named)
            return statement.answer(await cursor.fetchall(), _names(cursor))


def _mark(_: int, name: str) -> str:
    return f"%({name})s"


def _names(cursor: Cursor[Any] | AsyncCursor[Any]) -> Iterator[str]:
    for column in cursor.description or ():
        yield column.name
