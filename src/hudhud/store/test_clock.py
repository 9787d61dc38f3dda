"""The clock of a test: a table that `hudhud.clock()` reads instead of asking the machine.

For `hudhud.testing` only. What it writes is not part of the schema: a migration knows nothing of it
and puts the real clock back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudhud.errors import ConfigError
from hudhud.store import migrate

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    import psycopg

    Connection = psycopg.Connection[tuple[object, ...]]

_REAL_CLOCK = "base/clock.sql"
# Two that replace one function at once would fail on each other.
_LOCK = "select pg_advisory_xact_lock(hashtext('hudhud.migrate'))"
_IS_SET = "select checksum = 'test clock' from hudhud.function_version where path = %s"
_WRITE = (
    "insert into hudhud.test_clock (instant) values (%s)"
    " on conflict (only_row) do update set instant = excluded.instant"
)
_ADVANCE = "update hudhud.test_clock set instant = instant + %s"
_REMOVE = "drop table if exists hudhud.test_clock"
_RECORD = "update hudhud.function_version set checksum = %s where path = %s"
_NOW = "select hudhud.clock()"


def set_clock(connection: Connection, instant: datetime) -> None:
    """Let time stand still at an instant, for every session of the database, from the commit on.

    Raises:
        psycopg.errors.InsufficientPrivilege: The role does not own the schema.

    Source: sql/testing/set_clock.sql
    """
    connection.execute(_LOCK)
    if not is_set(connection):
        connection.execute(_script())
    connection.execute(_WRITE, (instant,))


def advance(connection: Connection, duration: timedelta) -> None:
    """Move a clock that was set.

    Raises:
        ConfigError: It was not.
    """
    if not is_set(connection) or not connection.execute(_ADVANCE, (duration,)).rowcount:
        message = "The clock of this database was not set. Call set_clock first."
        raise ConfigError(message)


def clear(connection: Connection) -> None:
    """Bring the real clock back; nothing happens if it is there."""
    connection.execute(_LOCK)
    if is_set(connection):
        real = next(one for one in migrate.functions() if one.path == _REAL_CLOCK)
        connection.execute(real.text.encode())
        connection.execute(_REMOVE)
        connection.execute(_RECORD, (real.checksum, real.path))


def is_set(connection: Connection) -> bool:
    """Return whether a test's clock is in force; a migration ends that, too."""
    return connection.execute(_IS_SET, (_REAL_CLOCK,)).fetchone() == (True,)


def now(connection: Connection) -> object:
    """Return the instant that the database holds to be now."""
    row = connection.execute(_NOW).fetchone()
    assert row is not None
    return row[0]


def _script() -> bytes:
    return (migrate.SQL / "testing" / "set_clock.sql").read_bytes()
