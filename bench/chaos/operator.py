"""The person at the console: decides about effects that nobody can ask the ledger about."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import psycopg

from bench.chaos import query
from hudhud.drivers.base import run as run_call
from hudhud.errors import MoveRefusedError
from hudhud.store import effects
from hudhud.store.reads import Read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.chaos.bookkeeper import Bookkeeper

    Connection = psycopg.Connection[tuple[Any, ...]]

LOOK_SECONDS: Final = 0.5
ROWS_MAX: Final = 200


class Operator:
    """Looks at the list of what nobody knows, now and then, and finds out by other means.

    Attributes:
        decided: Keys of the effects that were decided, each seen in the list.
    """

    def __init__(self, dsn: str, book: Bookkeeper) -> None:
        """Take the console and the ledger's journal."""
        self.decided: set[str] = set()
        self._dsn = dsn
        self._book = book
        self._look_at = 0.0

    def look(self) -> None:
        """Decide what there is to decide, if it is time to look again and the server is there."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_SECONDS
        with suppress(psycopg.OperationalError), query.connect(self._dsn) as connection:
            for effect_id, key in list(_asked(connection)):
                self._decide(connection, effect_id, key)

    def _decide(self, connection: Connection, effect_id: UUID, key: str) -> None:
        entry = self._book.entry_of(key)
        call = effects.decide_effect(
            effect_id,
            "not_done" if entry is None else "done",
            actor="chaos",
            reason="looked into the journal",
            result=None if entry is None else str(entry),
        )
        # Meanwhile the run that it was of may have come to its end after all.
        with suppress(MoveRefusedError):
            run_call(connection, call)
            self.decided.add(key)


def _asked(connection: Connection) -> Iterator[tuple[UUID, str]]:
    """Yield what the list shows as a question to an operator."""
    names = ("tenant_id", "provider", "job_id", "after", "id")
    read = Read("effects_page", {**dict.fromkeys(names), "state": "open", "rows_max": ROWS_MAX})
    for row in run_call(connection, read):
        if row["asks_operator"]:
            yield UUID(str(row["id"])), str(row["key"])
