"""Carries the plan out: each fault in its window, and the queue at work again before the next."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from bench.chaos.acts import Acts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bench.chaos.acts import Stage
    from bench.chaos.operator import Operator
    from bench.chaos.plan import Fault

# Liveness only: what it takes is reported.
RESUME_SECONDS_MAX: Final = 30.0
READY_SECONDS_MAX: Final = 60.0
TELL_SECONDS: Final = 5.0


class Director:
    """Does to the fleet, the server and the wire what the plan says.

    Attributes:
        tally: What was done.
        resumed_seconds: After each fault, until the next run's end was committed.
        stalls: Faults after which nothing was committed for half a minute.
    """

    def __init__(self, stage: Stage, operator: Operator) -> None:
        """Take what is to be directed, and who looks after what nobody knows."""
        self.resumed_seconds: list[float] = []
        self.stalls: list[str] = []
        self._acts = Acts(stage)
        self.tally = self._acts.tally
        self._stage = stage
        self._operator = operator
        self._began = time.monotonic()
        self._tell_at = 0.0

    def direct(
        self, faults: Iterable[Fault], *, until: float, resume_seconds: float = RESUME_SECONDS_MAX
    ) -> None:
        """Carry faults out, one after another.

        Args:
            faults: The plan.
            until: Monotonic second after which no further fault is begun.
            resume_seconds: After so long without an end of a run the queue stands still.

        Raises:
            RuntimeError: A process that cannot be had or ended.
        """
        for fault in faults:
            self.pass_time(fault.pause_seconds)
            if time.monotonic() >= until:
                self.say("time is up")
                break
            self._acts.do(fault)
            self._see_resumed(fault, resume_seconds)
        self._acts.release(now=True)

    def await_fleet(self) -> None:
        """Wait until every process is ready.

        Raises:
            RuntimeError: They do not start.
        """
        if not self._stage.fleet.wait(lambda: self._stage.fleet.is_whole, READY_SECONDS_MAX):
            message = "the processes do not start; see workers.log (--keep)"
            raise RuntimeError(message)

    def pass_time(self, seconds: float) -> None:
        """Let the fleet work for so long."""
        self.wait(lambda: False, seconds)

    def wait(self, predicate: Callable[[], bool], seconds: float) -> bool:
        """Look after everything until something holds; return whether it does."""

        def look() -> bool:
            self._operator.look()
            self._acts.release()
            self._tell_now_and_then()
            return predicate()

        return self._stage.fleet.wait(look, seconds)

    def say(self, words: str) -> None:
        """Tell a person."""
        sys.stderr.write(f"[{time.monotonic() - self._began:5.0f} s] {words}\n")

    def _see_resumed(self, fault: Fault, resume_seconds: float) -> None:
        began = time.monotonic()
        fleet = self._stage.fleet
        settled = fleet.settled
        if self.wait(lambda: fleet.settled > settled, resume_seconds):
            self.resumed_seconds.append(time.monotonic() - began)
        else:
            place = fault.point or fault.window
            self.stalls.append(f"nothing went on after {fault.kind} at {place}")

    def _tell_now_and_then(self) -> None:
        now = time.monotonic()
        if now < self._tell_at:
            return
        self._tell_at = now + TELL_SECONDS
        tally = self.tally
        self.say(
            f"{tally.kills} kills, {tally.kills_in_flight} in flight,"
            f" {tally.server_kills} of the server, {tally.api_kills} of the API;"
            f" {tally.fired.total()} failpoints, {tally.harms.total()} connections harmed,"
            f" {tally.stops} frozen, {tally.terminated_sessions} sessions ended;"
            f" {len(self._stage.answers.acknowledged)} jobs acknowledged,"
            f" {self._stage.fleet.settled} runs ended"
        )
