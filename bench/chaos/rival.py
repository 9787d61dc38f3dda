"""Two who want the same at the same time: one key, two transactions, and either may roll back."""

from __future__ import annotations

import dataclasses
import random
import threading
from typing import TYPE_CHECKING, Any, Final

import psycopg
from typing_extensions import override

from bench.chaos.intents import TENANTS
from bench.chaos.producer import LOST
from hudhud.client import Client

if TYPE_CHECKING:
    from bench.chaos.answers import Answers
    from bench.chaos.intents import Intent, Intents

    Connection = psycopg.Connection[tuple[Any, ...]]

ROUND_SECONDS: Final = 0.3
MEET_SECONDS_MAX: Final = 5.0
LATE_SECONDS_MAX: Final = 0.03
THINK_SECONDS_MAX: Final = 0.06
ROLLBACK_SHARE: Final = 0.4


class Rival(threading.Thread):
    """One of the two.

    Attributes:
        failure: What ended it before its time; None if nothing did.
    """

    def __init__(self, number: int, dsn: str, answers: Answers, *, meeting: _Meeting) -> None:
        """Make it; `start` begins."""
        super().__init__(name=f"rival-{number}", daemon=True)
        self.failure: BaseException | None = None
        self._dsn = dsn
        self._answers = answers
        self._meeting = meeting
        self._chance = random.Random(f"rival {number}")  # noqa: S311 - no secret
        self._client = Client()
        self._connection: Connection | None = None
        self._quit = threading.Event()

    def quit(self) -> None:
        """Ask it to end after what it is at."""
        self._quit.set()
        self._meeting.end()

    @override
    def run(self) -> None:
        """Want what the other wants until told to quit."""
        try:
            while not self._quit.wait(ROUND_SECONDS):
                intent = self._meeting.meet()
                if intent is not None:
                    self._want(intent)
        except BaseException as error:  # noqa: BLE001 - the director must hear of it
            self.failure = error
        finally:
            self._hang_up()

    def _want(self, intent: Intent) -> None:
        job = dataclasses.replace(
            intent.job, idempotency_key=f"rivals-{intent.number}", tenant_id=TENANTS[0]
        )
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._dsn, application_name="chaos rival")
            self._quit.wait(self._chance.uniform(0, LATE_SECONDS_MAX))
            made = self._client.enqueue(self._connection, job)
            self._quit.wait(self._chance.uniform(0, THINK_SECONDS_MAX))
            if self._chance.random() < ROLLBACK_SHARE:
                self._connection.rollback()
                return
            self._connection.commit()
        except LOST:
            self._hang_up()
        else:
            self._answers.acknowledge({intent.number: made.id})

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Meeting:
    """Where both wait for each other and agree on what they want.

    They do not wait for ever, for the other's connection may hang.
    """

    def __init__(self, intents: Intents) -> None:
        self._intents = intents
        self._wanted: Intent | None = None
        self._barrier = threading.Barrier(2, self._agree)

    def meet(self) -> Intent | None:
        """Return what both want now; None when the other does not come."""
        try:
            self._barrier.wait(MEET_SECONDS_MAX)
        except threading.BrokenBarrierError:
            self._barrier.reset()
            return None
        return self._wanted

    def end(self) -> None:
        """Let nobody wait any more."""
        self._barrier.abort()

    def _agree(self) -> None:
        self._wanted = self._intents.next(is_bare=True)


def rivals(intents: Intents, dsn: str, answers: Answers) -> list[Rival]:
    """Return two who want the same.

    Args:
        intents: What both want.
        dsn: The database.
        answers: Take note of what they are told.
    """
    meeting = _Meeting(intents)
    return [Rival(number, dsn, answers, meeting=meeting) for number in range(2)]
