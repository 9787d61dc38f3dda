"""A migrated database to stand on: the one that is named, a running embedded one, or our own."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hudhud.cli.output import note
from hudhud.embedded import Embedded, default_directory, find_server
from hudhud.store import migrate

if TYPE_CHECKING:
    from collections.abc import Generator

    from hudhud.config import Config


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
