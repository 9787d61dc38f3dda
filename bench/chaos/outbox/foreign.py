"""Somebody else's long transactions, with ids of their own, here and in another database."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Sequence

OPEN_SECONDS: Final = (1.0, 6.0)
_TAKE_ID: Final = "select pg_current_xact_id()"


class Foreigner(threading.Thread):
    """One that is always in the middle of something; it writes nothing, and has an id all the same.

    Attributes:
        transactions: How many it has ended.
    """

    def __init__(self, dsns: Sequence[str], *, seed: int) -> None:
        """Make it; `start` begins."""
        super().__init__(name="foreigner", daemon=True)
        self.transactions = 0
        self._dsns = dsns
        self._chance = random.Random(f"foreigner {seed}")  # noqa: S311 - no secret
        self._quit = threading.Event()

    def quit(self) -> None:
        """Ask it to end."""
        self._quit.set()

    @override
    def run(self) -> None:
        """Open transactions in all databases and take one's time, again and again."""
        while not self._quit.is_set():
            connections: list[psycopg.Connection] = []
            # The server may die at any moment.
            with suppress(psycopg.OperationalError):
                for dsn in self._dsns:
                    connection = psycopg.connect(dsn, application_name="somebody else")
                    connections.append(connection)
                    connection.execute(_TAKE_ID)
                self._quit.wait(self._chance.uniform(*OPEN_SECONDS))
                for connection in connections:
                    connection.rollback()
                    self.transactions += 1
            for connection in connections:
                connection.close()
            self._quit.wait(0.05)
