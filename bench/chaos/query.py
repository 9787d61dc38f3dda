"""The harness's own questions to the database: files of `sql/`, each on its own connection.

A connection costs a few milliseconds and is never one that a fault has broken.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Mapping


def install(dsn: str) -> None:
    """Install the record in a database that has hudhud's schema."""
    with connect(dsn) as connection:
        for name in ("record", "events", "failpoint"):
            connection.execute(sql(name))


def rows(
    dsn: str, name: str, parameters: Mapping[str, object] | None = None
) -> list[tuple[Any, ...]]:
    """Return what the query of a file finds."""
    with connect(dsn) as connection:
        return connection.execute(sql(name), parameters).fetchall()


def finds(dsn: str, name: str, **parameters: object) -> bool:
    """Return the answer of a query that says yes or no."""
    return bool(rows(dsn, name, parameters or None)[0][0])


def do(dsn: str, name: str) -> None:
    """Run the statements of a file."""
    with connect(dsn) as connection:
        connection.execute(sql(name))


def connect(dsn: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Open a connection whose statements commit by themselves, and that is never a standby's."""
    return psycopg.connect(
        dsn,
        autocommit=True,
        application_name="chaos",
        prepare_threshold=None,
        # Who waits for a lock here may be waited for by whoever is to let it go.
        options="-c default_transaction_read_only=off -c lock_timeout=1s",
    )


def sql(name: str) -> bytes:
    """Return the text of a file."""
    return (resources.files("bench.chaos") / "sql" / f"{name}.sql").read_bytes()
