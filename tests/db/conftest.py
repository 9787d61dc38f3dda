"""Fixtures of the database's tests."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.support.sessions import Sessions
from tests.support.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.server import Server


@pytest.fixture
def db(connection: psycopg.Connection[Any]) -> Iterator[Verbs]:
    """Give the verbs in a transaction that is rolled back."""
    with connection.transaction(force_rollback=True):
        yield Verbs(connection)


@pytest.fixture
def clocked(db: Verbs) -> Verbs:
    """Give the verbs on a database whose clock stands still until the test moves it."""
    db.take_clock()
    return db


@pytest.fixture(scope="session")
def committed_database(server: Server) -> Iterator[str]:
    """Give the DSN of a database whose tests commit, one after another."""
    name = f"committed_{uuid.uuid4().hex}"
    yield server.create(name)
    server.drop(name)


@pytest.fixture
def sessions(committed_database: str) -> Iterator[Sessions]:
    """Give sessions that commit; what they wrote is deleted afterwards."""
    sessions = Sessions(committed_database)
    yield sessions
    sessions.close()
    with psycopg.connect(committed_database, autocommit=True) as connection:
        Verbs(connection).empty()


@pytest.fixture
def own(database: str) -> Iterator[Sessions]:
    """Give sessions on a database of the test's own, whose tables it may change."""
    sessions = Sessions(database)
    yield sessions
    sessions.close()
