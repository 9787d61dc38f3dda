"""Work that comes over HTTP: posted under a key, and posted again until it is answered."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from typing_extensions import override

from bench.chaos import fact
from bench.chaos.place import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.chaos.answers import Answers
    from bench.chaos.intents import Intents

EVENT_SHARE: Final = 0.35
AGGREGATES: Final = 4
ANSWER_SECONDS_MAX: Final = 5.0
AWAY_SECONDS: Final = 0.1
_SERVERS_FAULT: Final = 500


@dataclass(frozen=True, slots=True)
class Door:
    """How to reach the API.

    Attributes:
        ports: Of its processes.
        key: For the tenant that jobs and events are of.
    """

    ports: Sequence[int]
    key: str


class Caller(threading.Thread):
    """One client of the API, at a steady rate; it knows every process of it.

    Attributes:
        failure: What ended it before its time; None if nothing did.
    """

    def __init__(
        self,
        intents: Intents,
        answers: Answers,
        *,
        facts: Answers,
        door: Door,
        rate: float,
    ) -> None:
        """Make it; `start` begins.

        Args:
            intents: What it wants done, one after another.
            answers: Takes note of what it is told about jobs,
            facts: and about events.
            door: How to reach the API.
            rate: Requests per second.
        """
        super().__init__(name=f"caller-{intents.name}", daemon=True)
        self.failure: BaseException | None = None
        self._intents = intents
        self._answers = answers
        self._facts = facts
        self._door = door
        self._chance = random.Random(f"caller {intents.name}")  # noqa: S311 - no secret
        self._rate = rate
        self._quit = threading.Event()

    def quit(self) -> None:
        """Ask it to end after what it is at: every request is answered first."""
        self._quit.set()

    @override
    def run(self) -> None:
        """Post until told to quit."""
        try:
            while not self._quit.wait(self._chance.expovariate(self._rate)):
                self._insist()
        except BaseException as error:  # noqa: BLE001 - the director must hear of it
            self.failure = error

    def _insist(self) -> None:
        if self._chance.random() < EVENT_SHARE:
            (number,) = self._intents.numbers(1)
            about = {"type": "thing", "id": f"h{number % AGGREGATES}"}
            payload = {"number": number * fact.PER_TASK}
            event = {"type": fact.TYPE, "payload": payload, "aggregate": about}
            answer = self._until_answered("/v1/events", event, number, told=self._facts)
            self._facts.acknowledge({payload["number"]: UUID(answer["id"])})
            return
        intent = self._intents.next(is_bare=True)
        job = intent.job
        body = {"type": job.type, "payload": job.payload, "queue": job.queue, "lane": job.lane}
        answer = self._until_answered("/v1/jobs", body, intent.number, told=self._answers)
        self._answers.acknowledge({intent.number: UUID(answer["id"])})

    def _until_answered(
        self, path: str, body: Mapping[str, object], number: int, *, told: Answers
    ) -> Mapping[str, Any]:
        """Post under one key until there is an answer."""
        while True:
            answer = self._post(path, body, f"request-{number}")
            if answer is not None:
                return answer
            told.break_request(number)
            time.sleep(AWAY_SECONDS)

    def _post(self, path: str, body: Mapping[str, object], key: str) -> Mapping[str, Any] | None:
        """Post once; return the answer, or None when there is none that says anything.

        Raises:
            RuntimeError: The request was refused.
        """
        line = http.client.HTTPConnection(
            HOST, self._chance.choice(self._door.ports), timeout=ANSWER_SECONDS_MAX
        )
        headers = {
            "authorization": f"Bearer {self._door.key}",
            "content-type": "application/json",
            "idempotency-key": key,
        }
        try:
            with self._answers.at_request():
                line.request("POST", path, json.dumps(body), headers)
                response = line.getresponse()
                text = response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            line.close()
        if response.status >= _SERVERS_FAULT or response.status == http.HTTPStatus.CONFLICT:
            return None
        if response.status not in (http.HTTPStatus.OK, http.HTTPStatus.ACCEPTED):
            message = f"the API answered {response.status}: {text!r}"
            raise RuntimeError(message)
        found: dict[str, Any] = json.loads(text)
        return found
