"""The command line and the database: which one is meant, one connection, a statement at a time."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
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
    from collections.abc import Generator, Mapping

    from hudhud.config import Config, Value
    from hudhud.store.call import Call

T = TypeVar("T")

CONNECT_SECONDS = 10


class Ground:
    """A database with this version's schema, and the embedded server below it if it is ours.

    Attributes:
        url: Of the database; the same after `restore`.
    """

    def __init__(self, url: str, server: Embedded | None = None) -> None:
        self.url = url
        self._server = server

    @property
    def is_gone(self) -> bool:
        """Whether our server died. Anybody else's is theirs to look after."""
        return self._server is not None and not self._server.is_running

    def restore(self) -> None:
        """Start our server again; PostgreSQL recovers what was committed.

        Raises:
            ConfigError: When it does not start; says why.
        """
        assert self._server is not None
        self._server.stop()
        self._server = Embedded.start(self._server.directory)

    def close(self) -> None:
        """Stop our server."""
        if self._server is not None:
            self._server.stop()


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


def configured(path: Path | None = None, *, arguments: Mapping[str, Value]) -> Config:
    """Read the configuration, as `config.load` does, and refuse an address that is none.

    Raises:
        ConfigError: For what `config.load` refuses, and for such an address.
    """
    config = configs.load(path, arguments=arguments)
    for key, url in (("database_url", config.database_url), ("direct_url", config.direct_url)):
        check_address(url or "", f"{key} ({config.origins.get(key)})")
    return config


def check_address(url: str, name: str) -> None:
    """Refuse what is no address of a PostgreSQL without repeating it: it may hold a password.

    Args:
        url: A connection string in either form of libpq; an empty one leaves all to its defaults.
        name: What it is called, for the message.

    Raises:
        ConfigError: When it cannot be read, or when its host or port is a piece of a password.
    """
    try:
        parts = conninfo_to_dict(url)
    except (psycopg.ProgrammingError, ValueError):
        parts = {"port": "none"}
    ports = str(parts.get("port") or 0).split(",")
    hosts = str(parts.get("host") or "").split(",")
    if all(port.isdigit() for port in ports if port) and not any("@" in host[1:] for host in hosts):
        return
    message = (
        f"{name} is no address of a PostgreSQL. Write postgresql://user:password@host:5432/database,"
        " and / @ : % in the password as %2F %40 %3A %25."
    )
    raise ConfigError(message)


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
        url_of(configured(arguments={"database_url": database_url})),
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
def ground(config: Config, *, joins: bool) -> Generator[Ground]:
    """Give a database with this version's schema, for the length of a block.

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
        yield Ground(url)
        return
    note(f"starting PostgreSQL in {place} …")
    server = Embedded.start(place)
    found = Ground(server.dsn, server)
    try:
        _migrate(found.url)
        yield found
    finally:
        found.close()


def embedded_directory(config: Config) -> Path:
    """Return where the embedded server lives by this configuration."""
    if config.embedded_directory is not None:
        return Path(config.embedded_directory).expanduser().absolute()
    return default_directory(os.environ)


def _migrate(url: str) -> None:
    if applied := migrate.apply(url):
        note(f"schema: {len(applied)} files applied")
