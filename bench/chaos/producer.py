"""The load: producers that write an intent and enqueue its job in one transaction."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from typing_extensions import override

from bench.chaos import task
from bench.chaos.application import QUEUES
from bench.chaos.task import Task
from hudhud.client import Client
from hudhud.domain.job import Lane

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from bench.chaos.answers import Answers
    from hudhud import NewJob

    Connection = psycopg.Connection[tuple[Any, ...]]

TENANTS: Final = ("acme", "bolt", "core", "dune", "echo")
NUMBERS_EACH: Final = 10_000_000
BACKLOG_MAX: Final = 400
BATCH_MAX: Final = 8
ROLLBACK_SHARE: Final = 0.03
KEY_SHARE: Final = 0.2
BULK_SHARE: Final = 0.5
REPEAT_SHARE: Final = 0.3  # of what has a key
DELAY_SHARE: Final = 0.1
_AWAY_SECONDS: Final = 0.05
_HOLD_SECONDS: Final = 0.2
_LOOK_EVERY: Final = 20  # transactions
_SAY_INTENT: Final = "insert into chaos.intent (number) values (%s) on conflict do nothing"
_BACKLOG: Final = "select count(*) from (select from hudhud.ready limit %s) found"
# The connection is gone; what was under way is committed only if its COMMIT had been sent.
_LOST: Final = (psycopg.OperationalError, psycopg.InterfaceError)


@dataclass(frozen=True, slots=True)
class Intent:
    """What a producer wants done."""

    number: int
    job: NewJob


class Producer(threading.Thread):
    """One client with its own connection, at a steady rate.

    Attributes:
        failure: What ended it before its time; None if nothing did.
    """

    def __init__(
        self, number: int, dsn: str, answers: Answers, *, seed: int, jobs_per_second: float
    ) -> None:
        """Make it; `start` begins."""
        super().__init__(name=f"producer-{number}", daemon=True)
        self.failure: BaseException | None = None
        self._dsn = dsn
        self._answers = answers
        self._chance = random.Random(f"{seed} {number}")  # noqa: S311 - can be repeated, no secret
        self._pause_seconds = (1 + BATCH_MAX) / 2 / jobs_per_second
        self._next_number = number * NUMBERS_EACH
        self._client = Client()
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
                self._deliver(self._intents())
                if turns % _LOOK_EVERY == 0:
                    self._hold_back()
            while self._again:
                self._deliver([])
        except BaseException as error:  # noqa: BLE001 - the director must hear of it
            self.failure = error
        finally:
            self._hang_up()

    def _intents(self) -> list[Intent]:
        return [self._intent() for _ in range(self._chance.randint(1, BATCH_MAX))]

    def _intent(self) -> Intent:
        number, self._next_number = self._next_number, self._next_number + 1
        chance = self._chance
        options: dict[str, Any] = {
            "tenant_id": chance.choice(TENANTS),
            "lane": chance.choice(list(Lane)).value,
            "queue": chance.choice(QUEUES),
        }
        if chance.random() < KEY_SHARE:
            options["idempotency_key"] = f"intent-{number}"
        if chance.random() < DELAY_SHARE:
            options["delay_seconds"] = chance.uniform(0.1, 1.5)
        return Intent(number, self._task(number).job(self._type(), **options))

    def _type(self) -> str:
        types = (task.EFFECT, task.EFFECT_THREAD, task.PLAIN, task.PLAIN_THREAD)
        return self._chance.choices(types, weights=(5, 1, 4, 1))[0]

    def _task(self, number: int) -> Task:
        chance = self._chance

        def seldom(share: float, most: int) -> int:
            return chance.randint(1, most) if chance.random() < share else 0

        return Task(
            number=number,
            # Now and then one that outlives its lease, and must be renewed.
            work_ms=seldom(0.02, 3_500) or int(chance.expovariate(1 / 60)),
            linger_ms=seldom(0.3, 60),
            snoozes=seldom(0.03, 2),
            failures=seldom(0.06, 2),
            breaks=seldom(0.04, 1),
            dies=seldom(0.02, 1),
            children=seldom(0.15, 3),
        )

    def _deliver(self, new: Sequence[Intent]) -> None:
        """Commit intents with their jobs, and those that are to be repeated."""
        again, self._again = self._again, []
        intents = [*again, *new]
        numbers = [one.number for one in intents]
        try:
            connection = self._connected()
            ids = self._write(connection, intents)
            if not again and self._chance.random() < ROLLBACK_SHARE:
                self._answers.undo(numbers)
                connection.rollback()
                return
        except _LOST:
            self._answers.undo(numbers)
            self._again = again
            self._lose_connection()
            return
        try:
            with self._answers.at_commit():
                connection.commit()
        except _LOST:
            self._answers.doubt(numbers)
            self._again = [one for one in intents if one.job.idempotency_key]
            self._lose_connection()
        else:
            self._answers.acknowledge(ids)
            self._again = [one for one in new if self._is_repeated(one)]

    def _is_repeated(self, intent: Intent) -> bool:
        return bool(intent.job.idempotency_key) and self._chance.random() < REPEAT_SHARE

    def _write(self, connection: Connection, intents: Sequence[Intent]) -> dict[int, UUID]:
        for one in intents:
            connection.execute(_SAY_INTENT, (one.number,))
        if len(intents) > 1 and self._chance.random() < BULK_SHARE:
            made = self._client.enqueue_many(connection, [one.job for one in intents])
        else:
            made = [self._client.enqueue(connection, one.job) for one in intents]
        return {one.number: job.id for one, job in zip(intents, made, strict=True)}

    def _hold_back(self) -> None:
        """Wait while the fleet is behind."""
        try:
            while self._backlog() >= BACKLOG_MAX and not self._quit.wait(_HOLD_SECONDS):
                continue
        except _LOST:
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
