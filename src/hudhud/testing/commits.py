"""Hear of somebody's commit, whatever of psycopg it goes through.

A connection that listens to a channel is told of its own notifications, by the server, before the
commit that sent them is answered; and of none that was rolled back. So PostgreSQL itself says what
was committed, and says it in time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard
from uuid import uuid4
from weakref import WeakSet

from psycopg import AsyncConnection, Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Notify

AnyConnection: TypeAlias = "Connection[Any] | AsyncConnection[Any]"

_CHANNEL: Final = "hudhud_inline_"


class Commits:
    """Connections whose commits are told of, as long as this is open."""

    def __init__(self, on_commit: Callable[[], None]) -> None:
        """Begin to tell.

        Args:
            on_commit: Called when a watched transaction has committed, in the thread of whoever
                commits, who waits for it. It must not raise.
        """
        self._on_commit = on_commit
        # Of this block alone: a connection that outlives it is told of nothing more.
        self._channel = f"{_CHANNEL}{uuid4().hex}"
        self._statements = [f"{verb} {self._channel}".encode() for verb in ("listen", "notify")]
        self._watched: WeakSet[AnyConnection] = WeakSet()

    def watch(self, connection: object) -> None:
        """Watch the transaction that a synchronous connection is in, if its driver can tell."""
        raw = _raw(connection)
        if _is_sync(raw):
            self._listen(raw)
            for statement in self._statements:
                raw.execute(statement)

    async def awatch(self, connection: object) -> None:
        """Watch the transaction that an asynchronous connection is in, if its driver can tell."""
        raw = await _araw(connection)
        if _is_async(raw):
            self._listen(raw)
            for statement in self._statements:
                await raw.execute(statement)

    def close(self) -> None:
        """Tell of nothing any more."""
        for connection in list(self._watched):
            connection.remove_notify_handler(self._told)
        self._watched.clear()

    def _listen(self, raw: AnyConnection) -> None:
        if raw not in self._watched:
            raw.add_notify_handler(self._told)
            self._watched.add(raw)

    def _told(self, notify: Notify) -> None:
        if notify.channel == self._channel:
            self._on_commit()


def _is_sync(raw: object) -> TypeGuard[Connection[Any]]:
    return isinstance(raw, Connection)


def _is_async(raw: object) -> TypeGuard[AsyncConnection[Any]]:
    return isinstance(raw, AsyncConnection)


def _raw(connection: Any) -> object:  # noqa: ANN401 - of any driver
    """Return the driver's connection inside SQLAlchemy's or Django's."""
    package = _package(connection)
    if package == "sqlalchemy":
        # A Session has a method of that name, a Connection the pool's connection.
        has_method = callable(connection.connection)
        inner: Any = connection.connection() if has_method else connection
        raw: object = inner.connection.driver_connection
    else:
        raw = connection.connection if package == "django" else connection
    return raw


async def _araw(connection: Any) -> object:  # noqa: ANN401 - of any driver
    if _package(connection) != "sqlalchemy":
        return connection
    is_session = not hasattr(connection, "get_raw_connection")
    inner = await connection.connection() if is_session else connection
    raw: object = (await inner.get_raw_connection()).driver_connection
    return raw


def _package(connection: object) -> str:
    return type(connection).__module__.partition(".")[0]
