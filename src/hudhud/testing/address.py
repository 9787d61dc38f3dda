"""Where the database of a test is, however the test names it."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from hudhud.errors import ConfigError


def address_of(app: object, place: object) -> str:
    """Return the address of a database.

    Args:
        app: The application, asked for `database_url` when no place is given.
        place: An address, a psycopg connection, or None.

    Raises:
        ConfigError: It is none of these, or a connection inside an open transaction, whose work
            other connections cannot see.
    """
    if isinstance(place, str):
        return place
    if isinstance(place, (Connection, AsyncConnection)):
        return _of_connection(place)  # pyright: ignore[reportUnknownArgumentType] - its row type
    if place is None and isinstance(url := getattr(app, "database_url", None), str):
        return url
    message = (
        f"{place!r} does not say where the database is."
        " Pass its address or a psycopg connection, or give the application its address."
    )
    raise ConfigError(message)


def _of_connection(connection: Connection[Any] | AsyncConnection[Any]) -> str:
    info = connection.info
    if info.transaction_status is not TransactionStatus.IDLE:
        message = (
            "The connection is inside a transaction, and jobs are run on connections of their own,"
            " which see only what is committed. Commit first."
        )
        raise ConfigError(message)
    return make_conninfo(info.dsn, **({"password": info.password} if info.password else {}))
