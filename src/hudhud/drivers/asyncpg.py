"""asyncpg: Connection, and what a pool hands out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hudhud.drivers.base import raise_named

if TYPE_CHECKING:
    from hudhud.store.call import Statement

T = TypeVar("T")


class Connection(Protocol):
    """What is used of asyncpg's connection."""

    async def fetch(self, query: str, /, *args: object) -> list[Any]:
        """Run a statement and return its records."""
        ...


async def arun(connection: Connection, statement: Statement[T]) -> T:
    """Run a statement on a connection, in the transaction that it is in."""
    try:
        rows = await connection.fetch(statement.sql(_mark), *statement.values)
        return statement.answer(rows, rows[0].keys() if rows else ())
    except Exception as error:
        raise_named(error)
        raise


def _mark(number: int, _: str) -> str:
    return f"${number}"
