"""Publishes: some events in each transaction, some of them taken back, and says so itself."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import psycopg
from typing_extensions import override

from bench.chaos.fact import TYPE, Fact
from bench.chaos.producer import LOST
from hudhud import Hudhud

if TYPE_CHECKING:
    from uuid import UUID

    from bench.chaos.answers import Answers

    Connection = psycopg.Connection[tuple[Any, ...]]

EVENTS_MAX: Final = 20  # of one transaction
AGGREGATES: Final = 2_000
LONE_SHARE: Final = 0.1
ROLLBACK_SHARE: Final = 0.15
# Of the transactions, some take back a part to a savepoint, some take their time.
SAVEPOINT_SHARE: Final = 0.1
LINGER_SHARE: Final = 0.05
LINGER_SECONDS_MAX: Final = 0.5
AWAY_SECONDS: Final = 0.05
NUMBERS_EACH: Final = 100_000_000
_SAY: Final = "select chaos.say_facts(%s, %s, %s)"


class Writer(threading.Thread):
    """One client with its own connection, as fast as it can.

    Attributes:
        failure: What ended it before its time; None if nothing did.
    """

    def __init__(self, number: int, dsn: str, answers: Answers, *, seed: int, events: int) -> None:
        """Make it; `start` begins.

        Args:
            number: Of the writer.
            dsn: The database.
            answers: Take note of what it is told, by the facts' numbers.
            seed: Of all choices.
            events: How many to publish, those that are taken back not counted.
        """
        super().__init__(name=f"writer-{number}", daemon=True)
        self.failure: BaseException | None = None
        self._dsn = dsn
        self._answers = answers
        self._chance = random.Random(f"writer {seed} {number}")  # noqa: S311 - no secret
        self._events = events
        self._published = 0
        self._next_number = (number + 1) * NUMBERS_EACH + seed * NUMBERS_EACH // 1_000
        self._app = Hudhud()
        self._connection: Connection | None = None
        self._quit = threading.Event()

    def quit(self) -> None:
        """Ask it to end after what it is at."""
        self._quit.set()

    @override
    def run(self) -> None:
        """Publish until there is enough."""
        try:
            while self._published < self._events and not self._quit.is_set():
                self._transact()
        except BaseException as error:  # noqa: BLE001 - the soak must hear of it
            self.failure = error
        finally:
            self._hang_up()

    def _facts(self) -> list[Fact]:
        """Return what to publish, in an order in which no two writers wait for each other."""
        amount = self._chance.randint(1, EVENTS_MAX)
        about = sorted(self._chance.randrange(AGGREGATES) for _ in range(amount))
        first, self._next_number = self._next_number, self._next_number + amount
        return [
            Fact(first + place, None if self._chance.random() < LONE_SHARE else f"a{one}")
            for place, one in enumerate(about)
        ]

    def _transact(self) -> None:
        try:
            connection = self._connected()
        except LOST:
            self._lose_connection()
            return
        facts = self._facts()
        numbers = [fact.number for fact in facts]
        try:
            ids = self._publish(connection, facts)
            if self._chance.random() < LINGER_SHARE:
                time.sleep(self._chance.uniform(0, LINGER_SECONDS_MAX))
            if self._chance.random() < ROLLBACK_SHARE:
                self._answers.undo(numbers)
                connection.rollback()
                return
        except LOST:
            self._answers.undo(numbers)
            self._lose_connection()
            return
        self._answers.undo(number for number in numbers if number not in ids)
        try:
            connection.commit()
        except LOST:
            self._answers.doubt(ids)
            self._lose_connection()
        else:
            self._answers.acknowledge(ids)
            self._published += len(ids)

    def _publish(self, connection: Connection, facts: list[Fact]) -> dict[int, UUID]:
        kept = len(facts)
        if self._chance.random() < SAVEPOINT_SHARE:
            kept = self._chance.randrange(len(facts))
        ids = {fact.number: self._publish_one(connection, fact) for fact in facts[:kept]}
        self._say(connection, facts[:kept], ids)
        if kept < len(facts):
            with connection.transaction(force_rollback=True):
                for fact in facts[kept:]:
                    self._publish_one(connection, fact)
        return ids

    def _publish_one(self, connection: Connection, fact: Fact) -> UUID:
        about = None if fact.aggregate is None else ("thing", fact.aggregate)
        return self._app.publish(connection, TYPE, {"number": fact.number}, aggregate=about)

    def _say(self, connection: Connection, facts: list[Fact], ids: dict[int, UUID]) -> None:
        said = (
            [ids[fact.number] for fact in facts],
            [fact.number for fact in facts],
            [fact.aggregate for fact in facts],
        )
        connection.execute(_SAY, said)

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = psycopg.connect(self._dsn, application_name="chaos writer")
        return self._connection

    def _lose_connection(self) -> None:
        self._hang_up()
        time.sleep(AWAY_SECONDS)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
