"""The processes of a run: alive by all means, each killed, frozen or stopped when it is told to."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from bench.chaos.board import Board, Field
from bench.chaos.place import BOARD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from bench.chaos.births import Births
    from bench.chaos.board import Slot
    from bench.chaos.place import Place

LEASE_SECONDS: Final = (1, 2)  # of every other worker
TURN_SECONDS: Final = 0.01
STAND_SECONDS: Final = 0.002  # until a process that was stopped surely stands
# A worker gives its handlers 3 s; the rest is statements that wait for a database that is away.
STOP_SECONDS_MAX: Final = 40.0
DEATH_SECONDS_MAX: Final = 20.0
RESTART_SECONDS: Final = 0.1  # after a start that failed, because the database was away


class Role(Enum):
    """What a process is there for."""

    WORKER = auto()
    RELAY = auto()
    API = auto()


class State(Enum):
    """What we know of a worker, or did to it."""

    ABSENT = auto()
    STARTING = auto()
    READY = auto()
    FROZEN = auto()
    DYING = auto()
    STOPPING = auto()


@dataclass(frozen=True, slots=True)
class Freeze:
    """A process that stood still: from when to when, and in the middle of what.

    Attributes:
        sending: So many calls stood between their last check and the first byte.
        stopped_at, thawed_at: Monotonic seconds; the latter infinite for one that was killed.
    """

    pid: int
    sending: int
    stopped_at: float
    thawed_at: float = float("inf")


@dataclass(frozen=True, slots=True)
class Death:
    """What the board of a worker that is gone said it was at.

    Attributes:
        worker_id: Under which it held its leases.
        ended_runs: Whether an end of its runs was on its way to the database.
    """

    worker_id: UUID
    ended_runs: bool


@dataclass(slots=True)
class Member:
    """One place in the fleet, and the process that fills it now.

    Attributes:
        number: Of its slot on the board.
        until: Monotonic second at which a frozen one is thawed, a stopping one must have ended,
            an absent one is started.
        death: Of the process before this one.
        may_die: Whether a failpoint was told to kill it.
    """

    number: int
    slot: Slot
    role: Role = Role.WORKER
    pid: int = 0
    state: State = State.ABSENT
    until: float = 0.0
    death: Death | None = None
    may_die: bool = False

    @property
    def lease_seconds(self) -> int:
        """How long its claims hold."""
        return LEASE_SECONDS[self.number % len(LEASE_SECONDS)]


class Fleet:
    """All processes; for one thread, which must call `tend` again and again.

    Attributes:
        members: All places, those of API processes too.
        freezes: What stood still, in the order in which it did.
        unexpected: What happened to processes that nobody did to them; a verdict in itself.
    """

    def __init__(self, place: Place, births: Births) -> None:
        """Make it; the workers come with the first `tend`.

        Args:
            place: Where they live.
            births: Bears them; of one fleet at a time.
        """
        board = Board(place.directory / BOARD, place.slots)
        self.members = [
            Member(number, board.slot(number), _role(place, number))
            for number in range(place.slots)
        ]
        self.freezes: list[Freeze] = []
        self.unexpected: list[str] = []
        self.place = place
        self._births = births
        self._settled_before = 0  # by processes that are gone
        self._is_closing = False

    @property
    def settled(self) -> int:
        """Runs whose end is committed, as far as the workers have heard."""
        return self._settled_before + sum(one.slot[Field.SETTLED] for one in self.members)

    @property
    def workers(self) -> list[Member]:
        """Those that are to run jobs."""
        return [one for one in self.members if one.role is Role.WORKER]

    @property
    def ready(self) -> list[Member]:
        """Of the workers those that do, in their order."""
        return self.those(Role.WORKER)

    def those(self, role: Role) -> list[Member]:
        """Return those of a role that are at work, in their order."""
        return [one for one in self.members if one.role is role and one.state is State.READY]

    @property
    def is_whole(self) -> bool:
        """Whether everybody is there and at work."""
        return all(one.state is State.READY for one in self.members)

    def tend(self, within_seconds: float = TURN_SECONDS) -> None:
        """Take note of births and deaths, thaw and restart what is due; wait at most so long."""
        for news in self._births.news(within_seconds):
            self._hear(news)
        now = time.monotonic()
        for member in self.members:
            self._look_after(member, now)

    def wait(self, predicate: Callable[[], bool], seconds: float) -> bool:
        """Tend until something holds; return whether it does."""
        deadline = time.monotonic() + seconds
        while not predicate():
            if time.monotonic() > deadline:
                return False
            self.tend()
        return True

    def kill(self, *members: Member) -> list[Death]:
        """Kill some at once, wait until they are gone, and return what they were at."""
        for member in members:
            os.kill(member.pid, signal.SIGKILL)
            member.state = State.DYING
        if not self.wait(
            lambda: all(one.state is not State.DYING for one in members), DEATH_SECONDS_MAX
        ):
            message = f"some of {[one.pid for one in members]} do not end"
            raise RuntimeError(message)
        return [one.death for one in members if one.death is not None]

    def freeze(self, member: Member, seconds: float) -> None:
        """Stop a worker where it stands; it goes on by itself after so many seconds."""
        sending = member.slot[Field.SENDING]
        os.kill(member.pid, signal.SIGSTOP)
        time.sleep(STAND_SECONDS)
        member.state = State.FROZEN
        member.until = time.monotonic() + seconds
        sending = max(sending, member.slot[Field.SENDING])
        self.freezes.append(Freeze(member.pid, sending, time.monotonic()))

    def stop(self, member: Member) -> None:
        """Ask a worker to stop in order; another takes its place."""
        os.kill(member.pid, signal.SIGTERM)
        member.state = State.STOPPING
        member.until = time.monotonic() + STOP_SECONDS_MAX

    def stop_all(self) -> None:
        """Ask everybody to stop, and wait for it; nobody takes their places."""
        self._is_closing = True
        for member in self.members:
            if member.state is State.READY:
                self.stop(member)
        self.wait(self._is_empty, STOP_SECONDS_MAX)

    def end_all(self) -> None:
        """Kill whoever is left, and wait until they are gone; nobody takes their places."""
        self._is_closing = True
        for member in self.members:
            if member.pid:
                os.kill(member.pid, signal.SIGKILL)
                member.state = State.DYING
        self.wait(self._is_empty, DEATH_SECONDS_MAX)

    def _note_thaw(self, pid: int) -> None:
        for number, freeze in enumerate(self.freezes):
            if freeze.pid == pid and freeze.thawed_at == float("inf"):
                self.freezes[number] = dataclasses.replace(freeze, thawed_at=time.monotonic())

    def _is_empty(self) -> bool:
        return all(one.state is State.ABSENT for one in self.members)

    def _hear(self, news: Mapping[str, int]) -> None:
        if "born" in news:
            self.members[news["born"]].pid = news["pid"]
        elif "gone" in news:
            # Until it is buried its pid is nobody else's, whatever we still send there.
            self._births.bury(news["gone"])
        else:
            (member,) = (one for one in self.members if one.pid == news["buried"])
            self._note_end(member, news["code"])

    def _note_end(self, member: Member, code: int) -> None:
        slot = member.slot
        member.death = Death(slot.worker_id, slot.ends_runs)
        failed_to_start = member.state is State.STARTING and not slot[Field.READY]
        # The API's server ends as its signal says, once it has ended in order.
        in_order = {0, -signal.SIGTERM} if member.role is Role.API else {0}
        stopped_in_order = member.state is State.STOPPING and code in in_order
        was_killed = member.state is State.DYING or (member.may_die and code == -signal.SIGKILL)
        if not (failed_to_start or stopped_in_order or was_killed):
            words = f"process {member.number} ended with {code} while {member.state.name.lower()}"
            self.unexpected.append(words)
        self._settled_before += slot[Field.SETTLED]
        slot.clear()
        member.pid = 0
        member.may_die = False
        member.state = State.ABSENT
        member.until = time.monotonic() + (RESTART_SECONDS if failed_to_start else 0)

    def _look_after(self, member: Member, now: float) -> None:
        is_due = now >= member.until
        match member.state:
            case State.ABSENT if is_due and not self._is_closing:
                self._births.start(self.place, member.number, lease_seconds=member.lease_seconds)
                member.state = State.STARTING
            case State.STARTING if member.slot[Field.READY]:
                member.state = State.READY
            case State.FROZEN if is_due:
                self._note_thaw(member.pid)
                os.kill(member.pid, signal.SIGCONT)
                member.state = State.READY
            case State.STOPPING if is_due:
                words = f"process {member.number} did not stop within {STOP_SECONDS_MAX:g} s"
                self.unexpected.append(words)
                os.kill(member.pid, signal.SIGKILL)
                member.state = State.DYING
            case _:
                pass


def _role(place: Place, number: int) -> Role:
    if number in dict(place.api_ports):
        return Role.API
    return Role.RELAY if number in place.relays else Role.WORKER
