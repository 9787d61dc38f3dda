"""Fixtures of the database's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.sessions import Sessions
from tests.support.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg


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


@pytest.fixture
def sessions(database: str) -> Iterator[Sessions]:
    """Give sessions that commit, on a database of the test's own."""
    sessions = Sessions(database)
    yield sessions
    sessions.close()
