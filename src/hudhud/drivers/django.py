"""Django: `django.db.connection`, or any of `django.db.connections`, on PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hudhud.drivers.base import raise_named

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from hudhud.store.call import Statement

T = TypeVar("T")


class Cursor(Protocol):
    """What is used of Django's cursor."""

    description: Sequence[Sequence[Any]] | None

    def execute(self, sql: str, params: dict[str, object]) -> object:
        """Run a statement."""
        ...

    def fetchall(self) -> list[Sequence[Any]]:
        """Return its rows."""
        ...


class Connection(Protocol):
    """What is used of Django's connection."""

    def cursor(self) -> AbstractContextManager[Cursor]:
        """Return a cursor to use in a with statement."""
        ...


def run(connection: Connection, statement: Statement[T]) -> T:
    """Run a statement on a connection, in the transaction that it is in."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement.sql(_mark), statement.named)
            names = (one[0] for one in cursor.description or ())
            return statement.answer(cursor.fetchall(), names)
    except Exception as error:
        raise_named(error)
        raise


def _mark(_: int, name: str) -> str:
    return f"%({name})s"
