"""The load: producers that write an intent and enqueue its job in one transaction."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

import psycopg
from typing_extensions import override

from bench.chaos import fact
from hudhud import Hudhud

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from bench.chaos.answers import Answers
    from bench.chaos.fact import Fact
    from bench.chaos.intents import Intent, Intents

    Connection = psycopg.Connection[tuple[Any, ...]]

BACKLOG_MAX: Final = 400
BATCH_MAX: Final = 8
ROLLBACK_SHARE: Final = 0.06
# Some transactions take their time between what they write, what they publish and the commit.
LINGER_SHARE: Final = 0.1
LINGER_SECONDS_MAX: Final = 0.6
BULK_SHARE: Final = 0.5
REPEAT_SHARE: Final = 0.3  # of what has a key
_AWAY_SECONDS: Final = 0.05
_HOLD_SECONDS: Final = 0.2
_LOOK_EVERY: Final = 20  # transactions
_SAY_INTENT: Final = "insert into chaos.intent (number) values (%s) on conflict do nothing"
_BACKLOG: Final = "select count(*) from (select from hudhud.ready limit %s) found"
# The connection is gone; what was under way is committed only if its COMMIT had been sent.
LOST: Final = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,  # a standby by now
    psycopg.errors.RaiseException,  # a failpoint inside a function
)


class Producer(threading.Thread):
    """One client with its own connection, at a steady rate.

    Attributes:
        failure: What ended it before its time; None if nothing did.
    """

    def __init__(
        self,
        intents: Intents,
        dsn: str,
        answers: Answers,
        *,
        facts: Answers,
        jobs_per_second: float,
    ) -> None:
        """Make it; `start` begins.

        Args:
            intents: What it wants done, and what it has to tell.
            dsn: The database.
            answers: Take note of what it is told about jobs,
            facts: and about events, by the facts' numbers.
            jobs_per_second: Its rate.
        """
        super().__init__(name=f"producer-{intents.name}", daemon=True)
        self.failure: BaseException | None = None
        self._intents = intents
        self._dsn = dsn
        self._answers = answers
        self._facts = facts
        self._chance = intents.chance
        self._pause_seconds = (1 + BATCH_MAX) / 2 / jobs_per_second
        self._app = Hudhud()
        fact.declare(self._app)
        self._connection: Connection | None = None
        self._quit = threading.Event()
        self._again: list[Intent] = []

    def quit(self) -> None:
        """Ask it to end after what it is at; what it has in doubt is cleared up first."""
        self._quit.set()

    @override
    def run(self) -> None:
        """Produce until told to quit."""
        try:
            turns = 0
            while not self._quit.wait(self._chance.expovariate(1 / self._pause_seconds)):
                turns += 1
                self._deliver(self._new())
                if turns % _LOOK_EVERY == 0:
                    self._hold_back()
            while self._again:
                self._deliver([])
        except BaseException as error:  # noqa: BLE001 - the director must hear of it
            self.failure = error
        finally:
            self._hang_up()

    def _new(self) -> list[Intent]:
        return [self._intents.next() for _ in range(self._chance.randint(1, BATCH_MAX))]

    def _deliver(self, new: Sequence[Intent]) -> None:
        """Commit intents with their jobs, and those that are to be repeated."""
        again, self._again = self._again, []
        intents = [*again, *new]
        numbers = [one.number for one in intents]
        facts = self._intents.facts() if new else []
        fact_numbers = [one.number for one in facts]
        try:
            connection = self._connected()
            ids = self._write(connection, intents)
            self._linger()
            event_ids = self._publish(connection, facts)
            self._linger()
            if not again and self._chance.random() < ROLLBACK_SHARE:
                self._answers.undo(numbers)
                self._facts.undo(fact_numbers)
                connection.rollback()
                return
        except LOST:
            self._answers.undo(numbers)
            self._facts.undo(fact_numbers)
            self._again = again
            self._lose_connection()
            return
        try:
            with self._answers.at_commit():
                connection.commit()
        except LOST:
            self._answers.doubt(numbers)
            self._facts.doubt(fact_numbers)
            self._again = [one for one in intents if one.job.idempotency_key]
            self._lose_connection()
        else:
            self._answers.acknowledge(ids)
            self._facts.acknowledge(event_ids)
            self._again = [one for one in new if self._is_repeated(one)]

    def _linger(self) -> None:
        if self._chance.random() < LINGER_SHARE:
            time.sleep(self._chance.uniform(0, LINGER_SECONDS_MAX))

    def _is_repeated(self, intent: Intent) -> bool:
        return bool(intent.job.idempotency_key) and self._chance.random() < REPEAT_SHARE

    def _write(self, connection: Connection, intents: Sequence[Intent]) -> dict[int, UUID]:
        for one in intents:
            connection.execute(_SAY_INTENT, (one.number,))
        if len(intents) > 1 and self._chance.random() < BULK_SHARE:
            made = self._app.client.enqueue_many(connection, [one.job for one in intents])
        else:
            made = [self._app.client.enqueue(connection, one.job) for one in intents]
        return {one.number: job.id for one, job in zip(intents, made, strict=True)}

    def _publish(self, connection: Connection, facts: Sequence[Fact]) -> dict[int, UUID]:
        return {one.number: fact.publish(self._app, connection, one) for one in facts}

    def _hold_back(self) -> None:
        """Wait while the fleet is behind."""
        try:
            while self._backlog() >= BACKLOG_MAX and not self._quit.wait(_HOLD_SECONDS):
                continue
        except LOST:
            self._lose_connection()

    def _backlog(self) -> int:
        connection = self._connected()
        row = connection.execute(_BACKLOG, (BACKLOG_MAX,)).fetchone()
        connection.rollback()
        return 0 if row is None else int(row[0])

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = psycopg.connect(self._dsn, application_name="chaos producer")
        return self._connection

    def _lose_connection(self) -> None:
        self._hang_up()
        time.sleep(_AWAY_SECONDS)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
