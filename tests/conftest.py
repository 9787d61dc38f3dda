"""Fixtures of every test: a server for the run, a database of one's own, a connection.

- `database`: DSN of a fresh, migrated database, for a test that commits; gone afterwards.
- `connection`: psycopg connection whose transaction is rolled back; for all other tests.
- `server`: the run's server, for DSNs past PgBouncer or of the superuser.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import IO, TYPE_CHECKING

import psycopg
import pytest

from tests.support.server import SESSION, Server, join

if TYPE_CHECKING:
    from collections.abc import Iterator

ALIVE = pytest.StashKey[IO[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the run's directory and hold its lock; workers of pytest-xdist find it by name."""
    if hasattr(config, "workerinput"):
        return
    session = Path(tempfile.mkdtemp(prefix="hudhud-tests-"))
    os.environ[SESSION] = str(session)
    alive = (session / "alive").open("w")
    fcntl.flock(alive, fcntl.LOCK_EX)
    config.stash[ALIVE] = alive


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let the keeper go, or remove the directory if no test needed one."""
    alive = config.stash.get(ALIVE, None)
    if alive is None:
        return
    session = Path(os.environ.pop(SESSION))
    if not (session / "start.lock").exists():
        shutil.rmtree(session)
    alive.close()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio alone: hudhud's worker is built on it."""
    return "asyncio"


@pytest.fixture(scope="session")
def server() -> Server:
    """Return the run's PostgreSQL server, shared by all workers of the run."""
    return join(Path(os.environ[SESSION]))


@pytest.fixture
def database(server: Server) -> Iterator[str]:
    """Give the DSN of a fresh, migrated database; dropped afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    yield server.create(name)
    server.drop(name)


@pytest.fixture(scope="session")
def shared_database(server: Server) -> Iterator[str]:
    """Give the DSN of a migrated database in which this worker's tests commit nothing."""
    name = f"shared_{uuid.uuid4().hex}"
    yield server.create(name)
    server.drop(name)


@pytest.fixture
def connection(shared_database: str) -> Iterator[psycopg.Connection]:
    """Give a connection whose transaction is rolled back at the end."""
    # Named prepared statements do not live through PgBouncer's transaction mode.
    with psycopg.connect(shared_database, prepare_threshold=None) as connection:
        yield connection
        connection.rollback()
