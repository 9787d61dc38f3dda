"""psycopg 3: Connection and AsyncConnection, whatever row factory they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.rows import tuple_row

from hudhud.drivers.base import raise_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor

    from hudhud.store.call import Statement

T = TypeVar("T")


def run(connection: Connection[Any], statement: Statement[T]) -> T:
    """Run a statement on a connection, in the transaction that it is in."""
    try:
        cursor = connection.cursor(row_factory=tuple_row)
        cursor.execute(statement.sql(_mark).encode(), statement.named)
        return statement.answer(cursor.fetchall(), _names(cursor))
    except Exception as error:
        raise_named(error)
        raise


async def arun(
    connection: AsyncConnection[Any], statement: Statement[T], *, binary: bool = False
) -> T:
    """As `run`, on an asynchronous connection; binary answers are read faster."""
    try:
        cursor = connection.cursor(row_factory=tuple_row, binary=binary)
        await cursor.execute(statement.sql(_mark).encode(), statement.named)
        return statement.answer(await cursor.fetchall(), _names(cursor))
    except Exception as error:
        raise_named(error)
        raise


def _mark(_: int, name: str) -> str:
    return f"%({name})s"


def _names(cursor: Cursor[Any] | AsyncCursor[Any]) -> Iterator[str]:
    for column in cursor.description or ():
        yield column.name
