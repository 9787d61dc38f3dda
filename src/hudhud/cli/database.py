"""The command line and the database: which one is meant, one connection, a statement at a time."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg.types.json import set_json_loads

from hudhud import config as configs
from hudhud.cli.output import note
from hudhud.domain.plain import shown_json
from hudhud.drivers import psycopg as driver
from hudhud.embedded import Embedded, default_directory, find_server
from hudhud.errors import ConfigError
from hudhud.store import migrate
from hudhud.store.reads import Read

if TYPE_CHECKING:
    from collections.abc import Generator

    from hudhud.config import Config
    from hudhud.store.call import Call

T = TypeVar("T")

CONNECT_SECONDS = 10


class Session:
    """A connection on which each statement is a transaction of its own."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection

    def call(self, call: Call[T]) -> T:
        """Run a verb and return what it read; raises what the database refused."""
        return driver.run(self.connection, call)

    def rows(self, name: str, **params: object) -> list[dict[str, object]]:
        """Return the rows of a read for people."""
        return driver.run(self.connection, Read(name, params))


@contextmanager
def session(database_url: str | None = None) -> Generator[Session]:
    """Open the database that is meant, for one command.

    Args:
        database_url: What the command line said; None: what file and environment say, else the
            embedded PostgreSQL if it runs.

    Raises:
        ConfigError: When no database is named and no embedded one runs.
        psycopg.OperationalError: When it does not answer.
    """
    with psycopg.connect(
        url_of(configs.load(arguments={"database_url": database_url})),
        autocommit=True,
        prepare_threshold=None,
        connect_timeout=CONNECT_SECONDS,
        application_name="hudhud-cli",
    ) as connection:
        set_json_loads(shown_json, connection)
        yield Session(connection)


def url_of(config: Config) -> str:
    """Return the database that a configuration means, the running embedded one if it names none.

    Raises:
        ConfigError: When there is neither.
    """
    url = config.database_url or find_server(embedded_directory(config))
    if url is None:
        message = (
            "No database is named and no embedded one runs. Set HUDHUD_DATABASE_URL, or start"
            " `hudhud up`."
        )
        raise ConfigError(message)
    return url


@contextmanager
def ground(config: Config, *, joins: bool) -> Generator[str]:
    """Give the URL of a database with this version's schema, for the length of a block.

    Args:
        config: Names the database, or where the embedded one lives.
        joins: Whether an embedded server that another process started may be used; else that is
            an error which says how to join it.

    Raises:
        ConfigError: When the embedded PostgreSQL cannot be had; says why and what to do.
        SchemaError: When the database is newer than this version.
    """
    place = embedded_directory(config)
    running = find_server(place) if joins else None
    if url := config.database_url or running:
        _migrate(url)
        yield url
        return
    note(f"starting PostgreSQL in {place} …")
    with Embedded.start(place) as server:
        _migrate(server.dsn)
        yield server.dsn


def embedded_directory(config: Config) -> Path:
    """Return where the embedded server lives by this configuration."""
    if config.embedded_directory is not None:
        return Path(config.embedded_directory).expanduser().absolute()
    return default_directory(os.environ)


def _migrate(url: str) -> None:
    if applied := migrate.apply(url):
        note(f"schema: {len(applied)} files applied")
