"""Find the driver of somebody's connection, and give server errors our names.

A driver runs one statement on a connection that belongs to the caller: it opens, commits and
retries nothing. What the server refuses leaves the transaction as PostgreSQL leaves it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from hudhud.errors import ConfigError, from_sqlstate

if TYPE_CHECKING:
    from hudhud.store.call import Statement

T = TypeVar("T")

# The package that a connection's class comes from, to the module here that knows it.
SUPPORTED = ("psycopg", "asyncpg", "sqlalchemy", "django")
SUPPORTED_WORDS = (
    "psycopg (Connection, AsyncConnection), asyncpg (Connection, or one from a pool),"
    " SQLAlchemy (Connection, Session, AsyncConnection, AsyncSession),"
    " Django (django.db.connection)"
)


# Of the same packages, and without a transaction of the caller's.
_NO_CONNECTION = re.compile("Cursor|Engine$|Pool$|sessionmaker$")


class Driver(Protocol):
    """What a module of this package offers: `run`, `arun`, or both."""

    def run(self, connection: object, statement: Statement[T]) -> T:
        """Run a statement on a connection and return what it answers."""
        ...

    async def arun(self, connection: object, statement: Statement[T]) -> T:
        """As `run`, for an asynchronous connection."""
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """Which driver a class of connections needs, and whether its calls are awaited."""

    package: str
    is_async: bool


def run(connection: object, statement: Statement[T]) -> T:
    """Run a statement on a synchronous connection, in the transaction that it is in.

    Raises:
        ConfigError: For a connection of an unsupported kind, or an asynchronous one.
        HudhudError: What the server refused, by its SQLSTATE; other errors stay the driver's own.
    """
    connection_class: type = type(connection)
    return pick_driver(connection_class, is_async=False).run(connection, statement)


async def arun(connection: object, statement: Statement[T]) -> T:
    """As `run`, on an asynchronous connection.

    Raises:
        ConfigError: For a connection of an unsupported kind, or a synchronous one.
        HudhudError: As `run`.
    """
    connection_class: type = type(connection)
    return await pick_driver(connection_class, is_async=True).arun(connection, statement)


@cache
def pick_driver(connection_class: type, *, is_async: bool) -> Driver:
    """Return the driver for a class of connections, by its package; imported when first used.

    Raises:
        ConfigError: When no driver knows it (lists what is supported), or it is of the other sort.
    """
    kind = kind_of(connection_class)
    name = f"{connection_class.__module__}.{connection_class.__qualname__}"
    if kind is None:
        message = f"{name} is no connection that hudhud knows. Pass one of {SUPPORTED_WORDS}."
    elif kind.is_async and not is_async:
        message = f"{name} is asynchronous. Use AsyncClient, or the awaitable call."
    elif is_async and not kind.is_async:
        message = f"{name} is synchronous. Use Client, or the call without await."
    else:
        return cast("Driver", import_module(f"hudhud.drivers.{kind.package}"))
    raise ConfigError(message)


@cache
def kind_of(connection_class: type) -> Kind | None:
    """Return what a class of connections is, by where it or a base of it comes from."""
    if _NO_CONNECTION.search(connection_class.__name__):
        return None
    for base in connection_class.__mro__:
        package = base.__module__.partition(".")[0]
        if package in SUPPORTED:
            is_async = package == "asyncpg" or base.__name__.lower().startswith("async")
            return Kind(package, is_async)
    return None


def raise_named(error: Exception) -> None:
    """Raise the error of ours that a server error stands for, if any; the cause is theirs."""
    ours = from_sqlstate(_sqlstate(error), _message(error))
    if ours is not None:
        raise ours from error


def _server_error(error: BaseException) -> BaseException:
    """Return the driver's error inside: SQLAlchemy keeps it in `orig`, Django as the cause."""
    inner = getattr(error, "orig", None) or error
    return inner if _has_state(inner) or inner.__cause__ is None else inner.__cause__


def _has_state(error: BaseException) -> bool:
    return _state(error) is not None


def _sqlstate(error: BaseException) -> str | None:
    return _state(_server_error(error))


def _state(error: BaseException) -> str | None:
    """Return what psycopg and asyncpg call sqlstate, and psycopg2 below an ORM pgcode."""
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def _message(error: BaseException) -> str:
    """Return the server's sentence alone, without its hints and whatever a driver puts around."""
    inner = _server_error(error)
    for one in (inner, inner.__cause__):
        text = getattr(getattr(one, "diag", one), "message_primary", None)  # psycopg
        text = text or getattr(one, "message", None)  # asyncpg
        if isinstance(text, str):
            return text
    return str(inner)
