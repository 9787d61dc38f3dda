"""The workers: alive by all means, each killed, frozen or stopped when the director says so."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from bench.chaos.births import Births
from bench.chaos.board import Board, Field
from bench.chaos.worker import BOARD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from bench.chaos.board import Slot
    from bench.chaos.worker import Place

LEASE_SECONDS: Final = (1, 2)  # of every other worker
TURN_SECONDS: Final = 0.01
# A worker gives its handlers 3 s; the rest is statements that wait for a database that is away.
STOP_SECONDS_MAX: Final = 40.0
DEATH_SECONDS_MAX: Final = 20.0
RESTART_SECONDS: Final = 0.1  # after a start that failed, because the database was away


class State(Enum):
    """What we know of a worker, or did to it."""

    ABSENT = auto()
    STARTING = auto()
    READY = auto()
    FROZEN = auto()
    DYING = auto()
    STOPPING = auto()


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
    """

    number: int
    slot: Slot
    pid: int = 0
    state: State = State.ABSENT
    until: float = 0.0
    death: Death | None = None

    @property
    def lease_seconds(self) -> int:
        """How long its claims hold."""
        return LEASE_SECONDS[self.number % len(LEASE_SECONDS)]


class Fleet:
    """All workers; for one thread, which must call `tend` again and again.

    Attributes:
        unexpected: What happened to workers that nobody did to them; a verdict in itself.
    """

    def __init__(self, place: Place) -> None:
        """Start the nursery; the workers follow with the first `tend`."""
        board = Board(place.directory / BOARD, place.workers)
        self.members = [Member(number, board.slot(number)) for number in range(place.workers)]
        self.unexpected: list[str] = []
        self._births = Births(place)
        self._settled_before = 0  # by processes that are gone
        self._is_closing = False

    @property
    def settled(self) -> int:
        """Runs whose end is committed, as far as the workers have heard."""
        return self._settled_before + sum(one.slot[Field.SETTLED] for one in self.members)

    @property
    def ready(self) -> list[Member]:
        """Those that work, in their order."""
        return [one for one in self.members if one.state is State.READY]

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

    def kill(self, member: Member) -> Death:
        """Kill a worker, wait until it is gone, and return what it was at."""
        os.kill(member.pid, signal.SIGKILL)
        member.state = State.DYING
        if not self.wait(lambda: member.state is not State.DYING, DEATH_SECONDS_MAX):
            message = f"worker {member.number} (pid {member.pid}) does not end"
            raise RuntimeError(message)
        assert member.death is not None
        return member.death

    def freeze(self, member: Member, seconds: float) -> None:
        """Stop a worker where it stands; it goes on by itself after so many seconds."""
        os.kill(member.pid, signal.SIGSTOP)
        member.state = State.FROZEN
        member.until = time.monotonic() + seconds

    def stop(self, member: Member) -> None:
        """Ask a worker to stop in order; another takes its place."""
        os.kill(member.pid, signal.SIGTERM)
        member.state = State.STOPPING
        member.until = time.monotonic() + STOP_SECONDS_MAX

    def stop_all(self) -> None:
        """Ask everybody to stop, and wait for it; nobody takes their places."""
        self._is_closing = True
        for member in self.ready:
            self.stop(member)
        self.wait(lambda: all(one.state is State.ABSENT for one in self.members), STOP_SECONDS_MAX)

    def close(self) -> None:
        """End whatever is left."""
        self._births.close()

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
        stopped_in_order = member.state is State.STOPPING and code == 0
        if not (failed_to_start or stopped_in_order or member.state is State.DYING):
            words = f"worker {member.number} ended with {code} while {member.state.name.lower()}"
            self.unexpected.append(words)
        self._settled_before += slot[Field.SETTLED]
        slot.clear()
        member.pid = 0
        member.state = State.ABSENT
        member.until = time.monotonic() + (RESTART_SECONDS if failed_to_start else 0)

    def _look_after(self, member: Member, now: float) -> None:
        is_due = now >= member.until
        match member.state:
            case State.ABSENT if is_due and not self._is_closing:
                self._births.start(member.number, member.lease_seconds)
                member.state = State.STARTING
            case State.STARTING if member.slot[Field.READY]:
                member.state = State.READY
            case State.FROZEN if is_due:
                os.kill(member.pid, signal.SIGCONT)
                member.state = State.READY
            case State.STOPPING if is_due:
                words = f"worker {member.number} did not stop within {STOP_SECONDS_MAX:g} s"
                self.unexpected.append(words)
                os.kill(member.pid, signal.SIGKILL)
                member.state = State.DYING
            case _:
                pass
