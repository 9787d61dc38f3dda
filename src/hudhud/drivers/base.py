"""Find the driver of somebody's connection, and give server errors our names.

A driver runs one statement on a connection that belongs to the caller: it opens, commits and
retries nothing. What the server refuses leaves the transaction as PostgreSQL leaves it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from hudhud.errors import ConfigError, from_sqlstate

if TYPE_CHECKING:
    from collections.abc import Generator

    from hudhud.store.call import Statement

T = TypeVar("T")

# The package that a connection's class comes from, to the module here that knows it.
SUPPORTED = ("psycopg", "asyncpg", "sqlalchemy", "django")


class Driver(Protocol):
    """What a module of this package offers: `run`, `arun`, or both."""

    def run(self, connection: object, statement: Statement[T]) -> T:
        """Run a statement on a connection and return what it answers."""
        ...

    async def arun(self, connection: object, statement: Statement[T]) -> T:
        """As `run`, for an asynchronous connection."""
        ...


@dataclass(frozen=True, slots=True)
class _Kind:
    package: str
    is_async: bool


def run(connection: object, statement: Statement[T]) -> T:
    """Run a statement on a synchronous connection, in the transaction that it is in.

    Raises:
        ConfigError: For a connection of an unsupported kind, or an asynchronous one.
        HudhudError: What the server refused, by its SQLSTATE; other errors stay the driver's own.
    """
    kind = _kind(connection)
    if kind.is_async:
        message = f"{_name(connection)} is asynchronous. Use AsyncClient, or the awaitable call."
        raise ConfigError(message)
    return pick_driver(connection).run(connection, statement)


async def arun(connection: object, statement: Statement[T]) -> T:
    """As `run`, on an asynchronous connection.

    Raises:
        ConfigError: For a connection of an unsupported kind, or a synchronous one.
        HudhudError: As `run`.
    """
    kind = _kind(connection)
    if not kind.is_async:
        message = f"{_name(connection)} is synchronous. Use Client, or the call without await."
        raise ConfigError(message)
    return await pick_driver(connection).arun(connection, statement)


def pick_driver(connection: object) -> Driver:
    """Return the driver for a connection, by the package of its class; imported when first used.

    Raises:
        ConfigError: When no driver knows it; lists what is supported.
    """
    module = import_module(f"hudhud.drivers.{_kind(connection).package}")
    return cast("Driver", module)


@contextmanager
def named_errors() -> Generator[None]:
    """Turn a server error that has a name of ours into that; the driver's own becomes its cause."""
    try:
        yield
    except Exception as error:
        ours = from_sqlstate(_sqlstate(error), _message(error))
        if ours is None:
            raise
        raise ours from error


def _kind(connection: object) -> _Kind:
    for base in type(connection).__mro__:
        package = base.__module__.partition(".")[0]
        if package in SUPPORTED:
            is_async = package == "asyncpg" or base.__name__.lower().startswith("async")
            return _Kind(package, is_async)
    message = (
        f"{_name(connection)} is no connection that hudhud knows. Pass one of"
        " psycopg (Connection, AsyncConnection), asyncpg (Connection, or one from a pool),"
        " SQLAlchemy (Connection, Session, AsyncConnection, AsyncSession),"
        " or Django (django.db.connection)."
    )
    raise ConfigError(message)


def _name(connection: object) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


def _server_error(error: BaseException) -> BaseException:
    """Return the driver's error inside: SQLAlchemy keeps it in `orig`, Django as the cause."""
    inner = getattr(error, "orig", None) or error
    return inner if _has_state(inner) or inner.__cause__ is None else inner.__cause__


def _has_state(error: BaseException) -> bool:
    return getattr(error, "sqlstate", None) is not None


def _sqlstate(error: BaseException) -> str | None:
    return getattr(_server_error(error), "sqlstate", None)


def _message(error: BaseException) -> str:
    inner = _server_error(error)
    primary = getattr(getattr(inner, "diag", None), "message_primary", None)
    return primary or str(inner)
