"""SQLAlchemy 2: Connection and Session, AsyncConnection and AsyncSession, on any driver of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import bindparam, text
from sqlalchemy.types import NullType

from hudhud.drivers.base import raise_named

if TYPE_CHECKING:
    from sqlalchemy import Connection, TextClause
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session

    from hudhud.store.call import Statement

T = TypeVar("T")


def run(connection: Connection | Session, statement: Statement[T]) -> T:
    """Run a statement on a connection or session, in the transaction that it is in."""
    try:
        result = connection.execute(_clause(statement))
        return statement.answer(result.fetchall(), result.keys())
    except Exception as error:
        raise_named(error)
        raise


async def arun(connection: AsyncConnection | AsyncSession, statement: Statement[T]) -> T:
    """As `run`, on an asynchronous connection or session."""
    try:
        result = await connection.execute(_clause(statement))
        return statement.answer(result.fetchall(), result.keys())
    except Exception as error:
        raise_named(error)
        raise


def _clause(statement: Statement[object]) -> TextClause:
    """Bind without types: the casts are in the text, the values are the driver's to adapt."""
    binds = (bindparam(name, value, NullType()) for name, value in statement.named.items())
    return text(statement.sql(_mark)).bindparams(*binds)


def _mark(_: int, name: str) -> str:
    return f"(:{name})"  # in parentheses, for `:name::type` would be read wrongly
