"""hudhud.drivers.base: which driver a connection needs, and what server errors become."""

from __future__ import annotations

import sqlite3
from uuid import UUID

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
import sqlalchemy
import sqlalchemy.exc
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from django.utils.connection import ConnectionProxy  # type: ignore[import-untyped]

from hudhud.drivers import base
from hudhud.drivers.base import Kind, kind_of
from hudhud.errors import ConfigError, DuplicateJobError, HudhudError
from hudhud.store import runs

ID = UUID(int=7)


class OwnConnection(psycopg.Connection[tuple[object, ...]]):
    """Of the user's module, as frameworks make them."""


@pytest.mark.parametrize(
    ("connection_class", "kind"),
    [
        (psycopg.Connection, Kind("psycopg", is_async=False)),
        (psycopg.AsyncConnection, Kind("psycopg", is_async=True)),
        (OwnConnection, Kind("psycopg", is_async=False)),
        (asyncpg.Connection, Kind("asyncpg", is_async=True)),
        (asyncpg.pool.PoolConnectionProxy, Kind("asyncpg", is_async=True)),
        (sqlalchemy.Connection, Kind("sqlalchemy", is_async=False)),
        (sqlalchemy.orm.Session, Kind("sqlalchemy", is_async=False)),
        (sqlalchemy.orm.scoped_session, Kind("sqlalchemy", is_async=False)),
        (sqlalchemy.ext.asyncio.AsyncConnection, Kind("sqlalchemy", is_async=True)),
        (sqlalchemy.ext.asyncio.AsyncSession, Kind("sqlalchemy", is_async=True)),
        (sqlalchemy.ext.asyncio.async_scoped_session, Kind("sqlalchemy", is_async=True)),
        (ConnectionProxy, Kind("django", is_async=False)),
        (sqlite3.Connection, None),
        (str, None),
    ],
)
def test_a_class_of_connections_is_known_by_where_it_comes_from(
    connection_class: type, kind: Kind | None
) -> None:
    assert kind_of(connection_class) == kind


@pytest.mark.parametrize("connection", [None, "postgresql:///shop"])
def test_what_no_driver_knows_is_refused_with_what_is_supported(connection: object) -> None:
    with pytest.raises(ConfigError, match=r"psycopg.*asyncpg.*SQLAlchemy.*Django"):
        base.run(connection, runs.leave(ID))


def like(name: str, module: str) -> object:
    return class_like(name, module)()


def class_like(name: str, module: str) -> type:
    return type(name, (), {"__module__": module})


@pytest.mark.parametrize("package", base.SUPPORTED)
def test_every_supported_package_has_its_driver(package: str) -> None:
    is_async = package == "asyncpg"
    driver = base.pick_driver(class_like("Connection", package), is_async=is_async)
    assert hasattr(driver, "arun" if is_async else "run")


def test_an_asynchronous_connection_is_sent_to_the_asynchronous_client() -> None:
    with pytest.raises(ConfigError, match="Use AsyncClient"):
        base.run(like("AsyncSession", "sqlalchemy.ext.asyncio"), runs.leave(ID))


async def test_a_synchronous_connection_is_sent_to_the_synchronous_client() -> None:
    with pytest.raises(ConfigError, match="Use Client"):
        await base.arun(like("ConnectionProxy", "django.utils.connection"), runs.leave(ID))


class ServerError(Exception):
    def __init__(self, sqlstate: str | None) -> None:
        super().__init__("the server's words")
        self.sqlstate = sqlstate


def wrapped(error: Exception) -> list[Exception]:
    """Return the error as drivers raise it: bare, in `orig`, as the cause."""
    orm = sqlalchemy.exc.DBAPIError("select 1", None, error)
    framework = Exception("wrapped")
    framework.__cause__ = error
    return [error, orm, framework]


class OlderServerError(Exception):
    """As psycopg2 raises it, below SQLAlchemy or Django."""

    pgcode = "HH003"


@pytest.mark.parametrize("name", ["Cursor", "ServerCursor", "CursorWrapper", "Engine", "Pool"])
def test_what_is_no_connection_of_a_package_is_refused_as_such(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is no connection"):
        base.run(like(name, "psycopg"), runs.leave(ID))


def test_a_state_is_found_under_the_name_that_an_older_driver_has_for_it() -> None:
    with pytest.raises(DuplicateJobError):
        base.raise_named(sqlalchemy.exc.DBAPIError("select 1", None, OlderServerError()))


@pytest.mark.parametrize("error", wrapped(ServerError("HH003")))
def test_a_state_of_ours_is_found_in_whatever_carries_it(error: Exception) -> None:
    with pytest.raises(DuplicateJobError) as caught:
        base.raise_named(error)
    assert str(caught.value) == "the server's words"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [*wrapped(ServerError("23505")), *wrapped(ServerError(None)), ValueError("x")]
)
def test_a_foreign_error_stays_what_it_is(error: Exception) -> None:
    base.raise_named(error)
    assert not isinstance(error, HudhudError)
