"""Every kind of connection that a user may bring, behind one face for the conformance suite.

Each adapter opens connections the way its users do, and ends transactions in its library's own
words; only `run` is ours. None keeps named prepared statements, for the suite also runs through
PgBouncer in transaction mode.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import asyncpg  # type: ignore[import-untyped]
import django  # type: ignore[import-untyped]
import django.conf  # type: ignore[import-untyped]
import django.db  # type: ignore[import-untyped]
import psycopg
import sqlalchemy
from django.db import transaction
from django.db.backends.postgresql.base import DatabaseWrapper  # type: ignore[import-untyped]
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from typing_extensions import override

from hudhud.drivers.base import arun, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from hudhud.store.call import Statement

T = TypeVar("T")


class Adapter(ABC):
    """A library's connections. `connection` is of whatever class the library has."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a connection and a transaction: committed at the end, rolled back by an error."""

    @abstractmethod
    def savepoint(self, connection: Any) -> AbstractAsyncContextManager[Any]:  # noqa: ANN401
        """Open a savepoint: released at the end, rolled back by an error."""

    @abstractmethod
    async def execute(self, connection: Any, text: str) -> None:  # noqa: ANN401
        """Run a statement of the user's own."""

    async def run(self, connection: object, statement: Statement[T]) -> T:
        """Run one of ours."""
        return run(connection, statement)


class PsycopgSync(Adapter):
    """psycopg.Connection, with a row factory of the user's."""

    @override
    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        with psycopg.connect(self.dsn, prepare_threshold=None, row_factory=dict_row) as connection:
            yield connection

    @override
    @asynccontextmanager
    async def savepoint(self, connection: Any) -> AsyncIterator[None]:
        with connection.transaction():
            yield

    @override
    async def execute(self, connection: Any, text: str) -> None:
        connection.execute(text)


class PsycopgAsync(Adapter):
    """psycopg.AsyncConnection."""

    @override
    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        connection = await psycopg.AsyncConnection.connect(self.dsn, prepare_threshold=None)
        async with connection:
            yield connection

    @override
    def savepoint(self, connection: Any) -> AbstractAsyncContextManager[Any]:
        return connection.transaction()  # type: ignore[no-any-return]

    @override
    async def execute(self, connection: Any, text: str) -> None:
        await connection.execute(text)

    @override
    async def run(self, connection: object, statement: Statement[T]) -> T:
        return await arun(connection, statement)


class Asyncpg(PsycopgAsync):
    """A connection of an asyncpg pool, with JSON codecs of the user's."""

    @override
    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        pool = asyncpg.create_pool(
            self.dsn, min_size=1, max_size=1, statement_cache_size=0, init=_set_codecs
        )
        async with pool, pool.acquire() as connection, connection.transaction():
            yield connection


async def _set_codecs(connection: Any) -> None:  # noqa: ANN401
    """Do what many do with JSON columns: give them and take them as Python values."""
    async with connection.transaction():
        for name in ("json", "jsonb"):
            await connection.set_type_codec(
                name, schema="pg_catalog", encoder=repr, decoder=lambda text: {"decoded": text}
            )


class SqlalchemyConnection(Adapter):
    """sqlalchemy.Connection, on psycopg."""

    @override
    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        engine = sqlalchemy.create_engine(
            _url(self.dsn, "psycopg"), connect_args={"prepare_threshold": None}
        )
        try:
            with engine.begin() as connection:
                yield connection
        finally:
            engine.dispose()

    @override
    @asynccontextmanager
    async def savepoint(self, connection: Any) -> AsyncIterator[None]:
        with connection.begin_nested():
            yield

    @override
    async def execute(self, connection: Any, text: str) -> None:
        connection.execute(sqlalchemy.text(text))


class SqlalchemySession(SqlalchemyConnection):
    """sqlalchemy.orm.Session, on psycopg."""

    @override
    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        engine = sqlalchemy.create_engine(
            _url(self.dsn, "psycopg"), connect_args={"prepare_threshold": None}
        )
        try:
            with Session(engine) as session, session.begin():
                yield session
        finally:
            engine.dispose()


class SqlalchemyAsyncConnection(Adapter):
    """sqlalchemy.ext.asyncio.AsyncConnection, on asyncpg."""

    @override
    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        engine = create_async_engine(
            _url(self.dsn, "asyncpg"),
            connect_args={
                "statement_cache_size": 0,
                "prepared_statement_cache_size": 0,
                "prepared_statement_name_func": lambda: f"own_{uuid.uuid4().hex}",
            },
        )
        try:
            async with engine.begin() as connection:
                yield connection
        finally:
            await engine.dispose()

    @override
    @asynccontextmanager
    async def savepoint(self, connection: Any) -> AsyncIterator[None]:
        async with connection.begin_nested():
            yield

    @override
    async def execute(self, connection: Any, text: str) -> None:
        await connection.execute(sqlalchemy.text(text))

    @override
    async def run(self, connection: object, statement: Statement[T]) -> T:
        return await arun(connection, statement)


class SqlalchemyAsyncSession(SqlalchemyAsyncConnection):
    """sqlalchemy.ext.asyncio.AsyncSession, on psycopg."""

    @override
    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        engine = create_async_engine(
            _url(self.dsn, "psycopg_async"), connect_args={"prepare_threshold": None}
        )
        try:
            async with AsyncSession(engine) as session, session.begin():
                yield session
        finally:
            await engine.dispose()


class Django(Adapter):
    """A connection of Django's, inside `transaction.atomic`."""

    @override
    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        if not django.conf.settings.configured:
            django.conf.settings.configure(USE_TZ=True)
            django.setup()
        connection = DatabaseWrapper(_django_settings(self.dsn), alias="hudhud")
        django.db.connections["hudhud"] = connection
        try:
            with transaction.atomic(using="hudhud"):
                yield connection
        finally:
            connection.close()
            del django.db.connections["hudhud"]

    @override
    @asynccontextmanager
    async def savepoint(self, connection: Any) -> AsyncIterator[None]:
        with transaction.atomic(using="hudhud"):
            yield

    @override
    async def execute(self, connection: Any, text: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(text)


ADAPTERS: dict[str, type[Adapter]] = {
    "psycopg": PsycopgSync,
    "psycopg_async": PsycopgAsync,
    "asyncpg": Asyncpg,
    "sqlalchemy": SqlalchemyConnection,
    "sqlalchemy_session": SqlalchemySession,
    "sqlalchemy_async": SqlalchemyAsyncConnection,
    "sqlalchemy_async_session": SqlalchemyAsyncSession,
    "django": Django,
}


def _url(dsn: str, driver: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{driver}://", 1)


def _django_settings(dsn: str) -> dict[str, object]:
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.removeprefix("/"),
        "USER": parts.username,
        "PASSWORD": "",
        "HOST": query["host"][0],
        "PORT": query["port"][0],
        "OPTIONS": {},
        "TIME_ZONE": None,
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": False,
        "AUTOCOMMIT": True,
        "ATOMIC_REQUESTS": False,
        "DISABLE_SERVER_SIDE_CURSORS": True,
    }
