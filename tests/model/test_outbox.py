"""Random writers and relays, really at once: nothing lost, nothing doubled, aggregates in order.

Writers take their transaction ids early or late, roll back, use savepoints, stay open for a while.
Relays take small steps, and some of them die between the jobs and the cursor.
"""

from __future__ import annotations

import os
import random
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import psycopg
import pytest

from tests.support.events import documents, due, publish, relay, relay_all, subscribe
from tests.support.sessions import SECONDS, Sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.server import Server
    from tests.support.verbs import Verbs

STORMS: Final = int(os.environ.get("HUDHUD_MODEL_STORMS", "3"))
WRITERS: Final = 4
RELAYS: Final = 2
TRANSACTIONS: Final = 60
AGGREGATES: Final = ("A", "B", "C")
NAMES: Final = ("order.paid:ship", "order.paid:bill")


class Writer:
    """One thread's transactions; what it committed is kept."""

    def __init__(self, db: Verbs, seed: str) -> None:
        self.db = db
        self.random = random.Random(seed)  # noqa: S311 - not for secrets
        self.committed: list[str] = []

    def play(self) -> None:
        for _ in range(TRANSACTIONS):
            self._transaction(rolls_back=self.random.random() < 0.15)

    def _transaction(self, *, rolls_back: bool) -> None:
        written: list[str] = []
        with self.db.connection.transaction(force_rollback=rolls_back):
            if self.random.random() < 0.3:  # as if it had written elsewhere first
                self.db.value("select pg_current_xact_id()::text")
            # In one order, as two transactions that take aggregates crosswise deadlock.
            for aggregate in sorted(self.random.choices(AGGREGATES, k=self.random.randint(1, 3))):
                written += self._publish(aggregate)
            if self.random.random() < 0.2:
                self.db.value("select pg_sleep(%s)", self.random.random() / 50)
        if not rolls_back:
            self.committed += written

    def _publish(self, aggregate: str) -> list[str]:
        undone = self.random.random() < 0.1
        with self.db.connection.transaction(force_rollback=undone):
            event = publish(self.db, 1, aggregate_type="order", aggregate_id=aggregate)
        return [] if undone else [str(event.id)]


class Relaying:
    """One thread's relay: some steps end in a crash before their commit."""

    def __init__(self, db: Verbs, seed: str, ended: threading.Event) -> None:
        self.db = db
        self.random = random.Random(seed)  # noqa: S311 - not for secrets
        self.ended = ended

    def play(self) -> None:
        while not self.ended.is_set():
            for name in due(self.db):
                crashes = self.random.random() < 0.2
                with self.db.connection.transaction(force_rollback=crashes):
                    relay(self.db, name, max_events=self.random.randint(1, 9))


@pytest.fixture
def sessions(database: str, server: Server) -> Iterator[Sessions]:
    sessions = Sessions(server.direct(database))
    yield sessions
    sessions.close()


@pytest.mark.parametrize("storm", range(STORMS))
def test_every_committed_event_becomes_one_job_of_each_subscription_in_order(
    sessions: Sessions, storm: int
) -> None:
    seed = f"{os.environ.get('HUDHUD_MODEL_SEED', '')}{storm}"
    db = sessions.open()
    for name in NAMES:
        subscribe(db, name)
    ended = threading.Event()
    writers = [Writer(sessions.open(), f"{seed} writer {n}") for n in range(WRITERS)]
    relays = [Relaying(sessions.open(), f"{seed} relay {n}", ended) for n in range(RELAYS)]
    with psycopg.connect(sessions.dsn) as foreign:  # open all the while
        foreign.execute("select pg_current_xact_id()")
        relaying = [sessions.start(one.play) for one in relays]
        for writing in [sessions.start(one.play) for one in writers]:
            writing.result(SECONDS)
        ended.set()
        for one in relaying:
            one.result(SECONDS)
        for name in NAMES:
            relay_all(db, name)
    committed = sorted(one for writer in writers for one in writer.committed)
    assert len(committed) > TRANSACTIONS
    for name in NAMES:
        found = documents(db, name)
        assert sorted(document["id"] for document in found) == committed, seed
        numbers: dict[str, list[int]] = defaultdict(list)
        for document in found:
            numbers[document["aggregate"]["id"]].append(document["sequence"])
        for aggregate, sequence in numbers.items():
            assert sequence == list(range(1, len(sequence) + 1)), (seed, aggregate)
