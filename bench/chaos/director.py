"""Carries the plan out: each fault in its window, and the queue at work again before the next."""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.chaos import query
from bench.chaos.board import Field
from bench.chaos.plan import Kind, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bench.chaos.answers import Answers
    from bench.chaos.fleet import Fleet, Member
    from bench.chaos.plan import Fault
    from bench.chaos.server import Server

# A window is looked for that long; then the fault comes as soon as there is work in hand.
WINDOW_SECONDS: Final = 1.0
WORK_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.0002
# Liveness only: what it takes is reported.
RESUME_SECONDS_MAX: Final = 30.0
READY_SECONDS_MAX: Final = 60.0
TELL_SECONDS: Final = 5.0


@dataclass(slots=True)
class Tally:
    """What was done, and how the queue took it.

    Attributes:
        kills: Processes that were killed: workers and postmasters.
        kills_in_flight: Of those, so many that hit runs in hand.
        windows: Of those, by the window that they were meant for and met.
        resumed_seconds: After each fault, until the next run's end was committed.
        stalls: Faults after which nothing was committed for half a minute.
    """

    kills: int = 0
    windows: Counter[Window] = field(default_factory=Counter["Window"])
    kills_in_flight: int = 0
    server_kills: int = 0
    stops: int = 0
    terminated_sessions: int = 0
    graceful_stops: int = 0
    resumed_seconds: list[float] = field(default_factory=list[float])
    stalls: list[str] = field(default_factory=list[str])


class Director:
    """Does to the fleet and the server what the plan says."""

    def __init__(self, server: Server, fleet: Fleet, answers: Answers) -> None:
        """Take what is to be directed."""
        self.tally = Tally()
        self._server = server
        self._fleet = fleet
        self._answers = answers
        self._began = time.monotonic()
        self._tell_at = 0.0

    def direct(self, faults: Iterable[Fault], *, until: float) -> None:
        """Carry faults out, one after another.

        Args:
            faults: The plan.
            until: Monotonic second after which no further fault is begun.

        Raises:
            RuntimeError: A process that cannot be had or ended.
        """
        acts: dict[Kind, Callable[[Fault], None]] = {
            Kind.KILL_WORKER: self._kill_worker,
            Kind.KILL_SERVER: self._kill_server,
            Kind.FREEZE: self._freeze,
            Kind.TERMINATE: self._terminate,
            Kind.STOP: self._stop,
        }
        for fault in faults:
            self.pass_time(fault.pause_seconds)
            if time.monotonic() >= until:
                self.say("time is up")
                return
            acts[fault.kind](fault)
            self._see_resumed(fault)

    def await_fleet(self) -> None:
        """Wait until every worker is ready.

        Raises:
            RuntimeError: They do not start.
        """
        fleet = self._fleet
        if not fleet.wait(lambda: len(fleet.ready) == len(fleet.members), READY_SECONDS_MAX):
            message = "the workers do not start; see workers.log (--keep)"
            raise RuntimeError(message)

    def pass_time(self, seconds: float) -> None:
        """Let the fleet work for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._fleet.tend()
            self._tell_now_and_then()

    def say(self, words: str) -> None:
        """Tell a person."""
        sys.stderr.write(f"[{time.monotonic() - self._began:5.0f} s] {words}\n")

    def _kill_worker(self, fault: Fault) -> None:
        member = self._victim(fault)
        is_met = self._await_window([member], fault.window)
        death = self._fleet.kill(member)
        self.tally.kills += 1
        self.tally.windows[fault.window] += is_met
        # Its last word only where the record may be a moment behind it: an end on its way.
        holds_work = query.finds(self._server.dsn, "holds_work", worker_id=death.worker_id)
        self.tally.kills_in_flight += death.ended_runs or holds_work

    def _kill_server(self, fault: Fault) -> None:
        if fault.window is Window.COMMITTING:
            is_met = self._await_commit()
        else:
            is_met = self._await_window(self._fleet.ready, fault.window)
        self._server.kill(whole=fault.choice % 4 > 0)
        self.tally.kills += 1
        self.tally.server_kills += 1
        self.tally.windows[fault.window] += is_met
        self.tally.kills_in_flight += query.finds(self._server.dsn, "held_work")

    def _freeze(self, fault: Fault) -> None:
        member = self._victim(fault)
        self._await_window([member], fault.window)
        self._fleet.freeze(member, fault.frozen_seconds)
        self.tally.stops += 1

    def _terminate(self, fault: Fault) -> None:
        self._await_window(self._fleet.ready, fault.window)
        sessions = query.rows(self._server.dsn, "sessions")
        # Every other time one that is at something, the rest of the time anyone's.
        few = max(1, len(sessions) // 8) if fault.choice % 2 else len(sessions)
        pid, _ = sessions[fault.choice // 2 % few]
        self.tally.terminated_sessions += query.finds(self._server.dsn, "terminate", pid=pid)

    def _stop(self, fault: Fault) -> None:
        member = self._victim(fault)
        self._await_window([member], fault.window)
        self._fleet.stop(member)
        self.tally.graceful_stops += 1

    def _victim(self, fault: Fault) -> Member:
        # Half of the fleet at least: the others go on with what the victim leaves behind.
        enough = (len(self._fleet.members) + 1) // 2
        if not self._fleet.wait(lambda: len(self._fleet.ready) >= enough, READY_SECONDS_MAX):
            message = "the workers do not come back"
            raise RuntimeError(message)
        return self._fleet.ready[fault.choice % len(self._fleet.ready)]

    def _await_window(self, members: Sequence[Member], window: Window) -> bool:
        """Wait until one of some workers is in a window; without one, until it has work."""
        if _is_met(members, window, WINDOW_SECONDS):
            return True
        _is_met(members, Window.WORKING, WORK_SECONDS)
        return False

    def _await_commit(self) -> bool:
        """Wait until a producer's commit is at the server."""
        deadline = time.monotonic() + WINDOW_SECONDS
        while not self._answers.committing and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        return bool(self._answers.committing)

    def _see_resumed(self, fault: Fault) -> None:
        began = time.monotonic()
        settled = self._fleet.settled
        if self._fleet.wait(lambda: self._fleet.settled > settled, RESUME_SECONDS_MAX):
            self.tally.resumed_seconds.append(time.monotonic() - began)
        else:
            self.tally.stalls.append(f"nothing went on after {fault.kind} while {fault.window}")

    def _tell_now_and_then(self) -> None:
        now = time.monotonic()
        if now < self._tell_at:
            return
        self._tell_at = now + TELL_SECONDS
        tally = self.tally
        self.say(
            f"{tally.kills} kills, {tally.kills_in_flight} of them in flight,"
            f" {tally.server_kills} of the server; {tally.stops} frozen,"
            f" {tally.terminated_sessions} sessions ended, {tally.graceful_stops} stopped;"
            f" {len(self._answers.acknowledged)} jobs acknowledged,"
            f" {self._fleet.settled} runs ended"
        )


def _is_met(members: Sequence[Member], window: Window, seconds: float) -> bool:
    """Look until one of some workers is in a window; return whether one was."""
    before = [member.slot[Field.CLAIMS] for member in members]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for member, claims in zip(members, before, strict=True):
            if member.slot.is_in(window, claims):
                return True
        time.sleep(LOOK_SECONDS)
    return False
