"""What a director can do: one method for each kind of fault."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psycopg

from bench.chaos import armed, query
from bench.chaos.board import Field
from bench.chaos.fleet import Role
from bench.chaos.plan import Kind, Window
from bench.chaos.points import POINTS, Action

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.chaos.answers import Answers
    from bench.chaos.fleet import Fleet, Member
    from bench.chaos.plan import Fault
    from bench.chaos.proxy import Harm
    from bench.chaos.server import Server
    from bench.chaos.wire import Wire

    Connection = psycopg.Connection[tuple[Any, ...]]

# A window is looked for that long; then the fault comes as soon as there is work in hand.
WINDOW_SECONDS: Final = 1.0
WORK_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.0002
READY_SECONDS_MAX: Final = 60.0
# How long somebody may take to come by a failpoint, and how often another is told to.
POINT_SECONDS: Final = 4.0
POINT_TRIES: Final = 5
SQL_DELAY_SECONDS: Final = 0.3
HARM_SECONDS: Final = 1.0
STANDBY_SECONDS: Final = 0.4
HOLD_SECONDS_MAX: Final = 2.0


@dataclass(slots=True)
class Tally:
    """What was done.

    Attributes:
        kills: Processes that were killed: workers, API processes and postmasters.
        kills_in_flight: Of those, so many that hit runs in hand, or a request.
        windows: Of those, by the window that they were meant for and met.
        fired: Failpoints at which something happened, with what it was.
        missed: Of those, where nobody came by.
        harms: Connections that the proxy harmed, by how.
    """

    kills: int = 0
    kills_in_flight: int = 0
    windows: Counter[Window] = field(default_factory=Counter["Window"])
    server_kills: int = 0
    api_kills: int = 0
    relay_kills: int = 0
    stops: int = 0
    terminated_sessions: int = 0
    graceful_stops: int = 0
    holds: int = 0
    standbys: int = 0
    fired: Counter[tuple[str, Action]] = field(default_factory=Counter["tuple[str, Action]"])
    missed: list[str] = field(default_factory=list[str])
    harms: Counter[Harm] = field(default_factory=Counter["Harm"])


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that can be harmed."""

    server: Server
    wire: Wire
    fleet: Fleet
    answers: Answers


class Acts:
    """Does to a stage what a fault says, each in its window."""

    def __init__(self, stage: Stage) -> None:
        """Take the stage."""
        self.tally = Tally()
        self._server = stage.server
        self._wire = stage.wire
        self._fleet = stage.fleet
        self._answers = stage.answers
        self._held: list[tuple[float, Connection]] = []
        self._acts: Mapping[Kind, Callable[[Fault], None]] = {
            Kind.KILL_WORKER: self._kill_workers,
            Kind.KILL_SERVER: self._kill_server,
            Kind.KILL_API: self._kill_api,
            Kind.KILL_RELAY: self._kill_relay,
            Kind.FAIL: self._fail,
            Kind.FREEZE: self._freeze,
            Kind.TERMINATE: self._terminate,
            Kind.STOP: self._stop,
            Kind.HARM: self._harm,
            Kind.HOLD: self._hold,
            Kind.STANDBY: self._standby,
        }

    def do(self, fault: Fault) -> None:
        """Do one thing."""
        self._acts[fault.kind](fault)

    def release(self, *, now: bool = False) -> None:
        """End the transactions that were held, those whose time is up or all."""
        for until, connection in self._held[:]:
            if now or time.monotonic() >= until:
                self._held.remove((until, connection))
                with suppress(psycopg.OperationalError), connection:
                    connection.rollback()

    def _kill_workers(self, fault: Fault) -> None:
        victims = self._victims(fault)
        is_met = self._await_window(victims, fault.window)
        deaths = self._fleet.kill(*victims)
        self.tally.kills += len(deaths)
        self.tally.windows[fault.window] += is_met
        for death in deaths:
            # Its last word only where the record may be a moment behind it: an end on its way.
            self.tally.kills_in_flight += death.ended_runs or self._holds_work(death.worker_id)

    def _kill_server(self, fault: Fault) -> None:
        if fault.window is Window.COMMITTING:
            is_met = _comes(lambda: bool(self._answers.committing), WINDOW_SECONDS)
        else:
            is_met = self._await_window(self._fleet.ready, fault.window)
        self._server.kill(whole=fault.choice % 4 > 0)
        self.tally.kills += 1
        self.tally.server_kills += 1
        self.tally.windows[fault.window] += is_met
        self.tally.kills_in_flight += query.finds(self._server.dsn, "held_work")

    def _kill_api(self, fault: Fault) -> None:
        victim = self._one_of(Role.API, fault)
        is_met = _comes(lambda: bool(self._answers.requesting), WINDOW_SECONDS)
        self._fleet.kill(victim)
        self.tally.kills += 1
        self.tally.api_kills += 1
        self.tally.windows[fault.window] += is_met
        self.tally.kills_in_flight += is_met

    def _kill_relay(self, fault: Fault) -> None:
        """Kill one that only routes; what it is at holds no run, so it counts as no hit."""
        self._fleet.kill(self._one_of(Role.RELAY, fault))
        self.tally.kills += 1
        self.tally.relay_kills += 1

    def _fail(self, fault: Fault) -> None:
        """Let a failpoint fail; another victim is told to when nobody comes by."""
        assert fault.action is not None
        at_point = self._fail_in_worker if fault.point in POINTS else self._fail_in_server
        for turn in range(POINT_TRIES):
            if at_point(fault, fault.choice + turn):
                self.tally.fired[fault.point, fault.action] += 1
                return
        self.tally.missed.append(f"nobody came by {fault.point} to {fault.action}")

    def _fail_in_worker(self, fault: Fault, choice: int) -> bool:
        assert fault.action is not None
        self._await_fleet()
        there = self._fleet.ready
        if fault.point.startswith("relay."):
            there = [*there, *self._fleet.those(Role.RELAY)]
        member = there[choice % len(there)]
        slot, pid, worker_id = member.slot, member.pid, member.slot.worker_id
        before = slot[Field.FIRED]
        member.may_die = fault.action is Action.KILL
        armed.order(slot, fault.point, fault.action)
        is_kill = fault.action is Action.KILL

        def has_fired() -> bool:
            return member.pid != pid or (slot[Field.FIRED] != before and not is_kill)

        self._fleet.wait(has_fired, POINT_SECONDS)
        if member.pid == pid and slot[Field.FIRED] == before:
            slot.order(0, 0)
            member.may_die = False
            return False
        if is_kill:
            self._fleet.wait(lambda: member.pid != pid, POINT_SECONDS)
            self.tally.kills += 1
            self.tally.kills_in_flight += self._holds_work(worker_id)
        return True

    def _fail_in_server(self, fault: Fault, _: int) -> bool:
        assert fault.action is not None
        dsn = self._server.dsn
        asked = {"point": fault.point, "action": fault.action, "seconds": SQL_DELAY_SECONDS}
        ((ticket,),) = query.rows(dsn, "arm", asked)
        return self._fleet.wait(lambda: query.finds(dsn, "has_fired", ticket=ticket), POINT_SECONDS)

    def _freeze(self, fault: Fault) -> None:
        (member,) = self._victims(fault)
        self._await_window([member], fault.window)
        self._fleet.freeze(member, fault.seconds)
        self.tally.stops += 1

    def _terminate(self, fault: Fault) -> None:
        self._await_window(self._fleet.ready, fault.window)
        sessions = query.rows(self._server.dsn, "sessions")
        # Every other time one that is at something, the rest of the time anyone's.
        few = max(1, len(sessions) // 8) if fault.choice % 2 else len(sessions)
        pid, _ = sessions[fault.choice // 2 % few]
        self.tally.terminated_sessions += query.finds(self._server.dsn, "terminate", pid=pid)

    def _stop(self, fault: Fault) -> None:
        (member,) = self._victims(fault)
        self._await_window([member], fault.window)
        self._fleet.stop(member)
        self.tally.graceful_stops += 1

    def _harm(self, fault: Fault) -> None:
        assert fault.order is not None
        if self._wire.harm(fault.order, HARM_SECONDS) is not None:
            self.tally.harms[fault.order.harm] += 1

    def _hold(self, fault: Fault) -> None:
        """Begin to cancel some jobs that are claimable, and think about it for a while."""
        connection = query.connect(self._server.dsn)
        connection.autocommit = False
        self._held.append((time.monotonic() + min(fault.seconds, HOLD_SECONDS_MAX), connection))
        row = connection.execute(query.sql("begin_to_cancel")).fetchone()
        self.tally.holds += row is not None and row[0] > 0

    def _standby(self, _: Fault) -> None:
        query.do(self._server.dsn, "become_standby")
        until = time.monotonic() + STANDBY_SECONDS
        self._fleet.wait(lambda: time.monotonic() > until, 2 * STANDBY_SECONDS)
        query.do(self._server.dsn, "become_primary")
        self.tally.standbys += 1

    def _holds_work(self, worker_id: object) -> bool:
        return query.finds(self._server.dsn, "holds_work", worker_id=worker_id)

    def _victims(self, fault: Fault) -> list[Member]:
        self._await_fleet()
        ready = self._fleet.ready
        amount = min(fault.victims, len(ready))
        return [ready[(fault.choice + place) % len(ready)] for place in range(amount)]

    def _one_of(self, role: Role, fault: Fault) -> Member:
        self._await(lambda: bool(self._fleet.those(role)), f"no {role.name} comes back")
        there = self._fleet.those(role)
        return there[fault.choice % len(there)]

    def _await_fleet(self) -> None:
        # Half of the fleet at least: the others go on with what the victim leaves behind.
        enough = (len(self._fleet.workers) + 1) // 2
        self._await(lambda: len(self._fleet.ready) >= enough, "the workers do not come back")

    def _await(self, predicate: Callable[[], bool], otherwise: str) -> None:
        if not self._fleet.wait(predicate, READY_SECONDS_MAX):
            raise RuntimeError(otherwise)

    def _await_window(self, members: Sequence[Member], window: Window) -> bool:
        """Wait until one of some workers is in a window; without one, until it has work."""
        if _is_met(members, window, WINDOW_SECONDS):
            return True
        _is_met(members, Window.WORKING, WORK_SECONDS)
        return False


def _is_met(members: Sequence[Member], window: Window, seconds: float) -> bool:
    """Look until one of some workers is in a window; return whether one was."""
    before = [member.slot[Field.CLAIMS] for member in members]
    return _comes(
        lambda: any(
            member.slot.is_in(window, claims)
            for member, claims in zip(members, before, strict=True)
        ),
        seconds,
    )


def _comes(predicate: Callable[[], bool], seconds: float) -> bool:
    """Look very often until something holds; return whether it came to that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if predicate():
            return True
        time.sleep(LOOK_SECONDS)
    return False
