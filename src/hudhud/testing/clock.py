"""Set the clock that everything in hudhud's schema reads."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self, cast

import psycopg

from hudhud.errors import ConfigError, PermissionDeniedError
from hudhud.store import test_clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class Clock:
    """The clock of one database. Leaving it as a context brings the real one back."""

    def __init__(self, url: str) -> None:
        """Make a handle; nothing is set by that.

        Args:
            url: Address of the database, for the role that owns the schema.
        """
        self._url = url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def set(self, instant: datetime) -> None:
        """Let time stand still at an instant, for every session.

        Raises:
            ConfigError: The instant has no zone.
            PermissionDeniedError: The role does not own the schema.
        """
        if instant.utcoffset() is None:
            message = f"{instant!r} has no zone. Give it one: datetime(…, tzinfo=UTC)."
            raise ConfigError(message)
        self._do(lambda connection: test_clock.set_clock(connection, instant))

    def advance(self, duration: timedelta | float = 0.0, *, days: float = 0.0) -> datetime:
        """Move a clock that is set.

        Args:
            duration: How far; a number is seconds. Not negative.
            days: Added to it.

        Returns:
            The new instant.

        Raises:
            ConfigError: The clock was not set, or is to go backwards.
            PermissionDeniedError: The role does not own the schema.
        """
        if not isinstance(duration, timedelta):
            duration = timedelta(seconds=duration)
        duration += timedelta(days=days)
        if duration < timedelta(0):
            message = "Time does not go backwards. Use set for another instant."
            raise ConfigError(message)
        self._do(lambda connection: test_clock.advance(connection, duration))
        return self.now()

    def clear(self) -> None:
        """Bring the real clock back; nothing happens if it is there.

        Raises:
            PermissionDeniedError: The role does not own the schema.
        """
        self._do(test_clock.clear)

    def now(self) -> datetime:
        """Return the instant that the database holds to be now."""
        return cast("datetime", self._do(test_clock.now))

    def _do(self, act: Callable[[psycopg.Connection[tuple[object, ...]]], object]) -> object:
        try:
            with psycopg.connect(self._url, prepare_threshold=None) as connection:
                return act(connection)
        except psycopg.errors.InsufficientPrivilege as error:
            message = f"Only the owner of the schema hudhud can set its clock: {error}"
            raise PermissionDeniedError(message) from error


def set_clock(url: str, instant: datetime) -> Clock:
    """Let time stand still at an instant, for every session of a database.

    `with set_clock(url, datetime(2030, 1, 1, tzinfo=UTC)) as clock:` brings the real clock back
    at the end of the block. Delays, retries, leases and whatever else hudhud measures by instants
    follow; time limits of handlers do not.

    Args:
        url: Address of the database, for the role that owns the schema.
        instant: With its zone.

    Returns:
        The handle that moves it on and brings the real clock back.

    Raises:
        ConfigError: The instant has no zone.
        PermissionDeniedError: The role does not own the schema.

    Source: store/test_clock.py
    """
    clock = Clock(url)
    clock.set(instant)
    return clock
