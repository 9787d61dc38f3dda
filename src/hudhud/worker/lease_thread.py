"""The thread that renews leases, asks for cancel requests and watches the loop."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psycopg
from typing_extensions import override

from hudhud.drivers.base import run as run_call
from hudhud.errors import HudhudError
from hudhud.store import runs
from hudhud.telemetry import emit
from hudhud.worker.backoff import Backoff
from hudhud.worker.connection import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from psycopg import Connection
    from psycopg.rows import TupleRow

BEAT_SECONDS: Final = 1.0  # while something runs
IDLE_BEAT_SECONDS: Final = 10.0
STALL_SECONDS: Final = 1.0
_ROUND_SECONDS_MAX: Final = 0.5
_RETRY_SECONDS_MAX: Final = 5.0


class HeldLeases:
    """The leases this process holds, and since when their time counts.

    The loop adds and removes, the thread reads a copy: each step is one operation on a dict,
    which is atomic, so there is no lock that a claim could wait for.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._half_seconds = lease_seconds / 2
        self._since: dict[UUID, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def hold(self, lease_id: UUID, since: float) -> None:
        """Keep a lease whose time counts from a monotonic second."""
        self._since[lease_id] = since

    def release(self, lease_id: UUID) -> bool:
        """Let a lease go; return whether it was held."""
        return self._since.pop(lease_id, None) is not None

    def due(self, now: float) -> list[UUID]:
        """Return the leases past half their time, oldest first."""
        since = self._since.copy()
        return sorted(
            (lease for lease, at in since.items() if now - at >= self._half_seconds),
            key=since.__getitem__,
        )

    def renew(self, leases: Iterable[UUID], since: float) -> None:
        """Count the time of renewed leases anew, unless they were let go meanwhile."""
        for lease in leases:
            if lease in self._since:
                self._since[lease] = since


class LoopWatch:
    """The loop stamps it every `tick_seconds`; a thread looks at the stamp's age.

    A handler that computes or blocks inside the loop stops every other handler with it. That is
    told once when it is noticed and once, with the whole length, when it is over.
    """

    def __init__(self, tick_seconds: float) -> None:
        self._tick_seconds = tick_seconds
        self._stamped_at = time.monotonic()
        self._stalled_since: float | None = None

    def stamp(self) -> None:
        """Say, on the loop, that it turns."""
        self._stamped_at = time.monotonic()

    def look(self) -> float:
        """Compare the stamp's age with the tick, on the watching thread.

        Returns:
            By how many seconds the loop is late, 0 if it is not.
        """
        stamped_at = self._stamped_at
        lag_seconds = max(0.0, time.monotonic() - stamped_at - self._tick_seconds)
        since = self._stalled_since
        if since is not None and stamped_at > since:
            self._stalled_since = None
            emit("loop.recovered", lag_seconds=stamped_at - since - self._tick_seconds)
        if lag_seconds > STALL_SECONDS and self._stalled_since is None:
            self._stalled_since = stamped_at
            emit("loop.stalled", lag_seconds=lag_seconds)
        return lag_seconds


@dataclass(frozen=True, slots=True)
class Keeping:
    """What a lease thread works on, and whom it tells; the callbacks reach the loop safely."""

    url: str
    worker_id: UUID
    lease_seconds: int
    held: HeldLeases
    watch: LoopWatch
    tell_lost: Callable[[UUID], None]
    tell_cancel: Callable[[UUID, int], None]
    tell_ended: Callable[[BaseException | None], None]


class LeaseThread(threading.Thread):
    """Goes round a few times a second; most rounds find nothing to do and ask nobody."""

    def __init__(self, keeping: Keeping) -> None:
        super().__init__(name="hudhud-lease", daemon=True)
        self._keeping = keeping
        self._quit = threading.Event()
        self._round_seconds = min(_ROUND_SECONDS_MAX, keeping.lease_seconds / 8)
        self._backoff = Backoff(max_seconds=min(_RETRY_SECONDS_MAX, keeping.lease_seconds / 4))
        self._connection: Connection[TupleRow] | None = None
        self._beaten_at = -math.inf
        self._retry_at = -math.inf

    def quit(self) -> None:
        """Ask the thread to end after the statement it is in."""
        self._quit.set()

    @override
    def run(self) -> None:
        """Go round until told to quit, then say how it ended."""
        error: BaseException | None = None
        try:
            while not self._quit.is_set():
                self._keeping.watch.look()
                self._round(time.monotonic())
                self._quit.wait(self._round_seconds)
        except BaseException as caught:  # noqa: BLE001 - whatever it is, the service must hear of it
            error = caught
        finally:
            self._disconnect()
            self._keeping.tell_ended(error)

    def _round(self, now: float) -> None:
        due = self._keeping.held.due(now)
        beat_seconds = BEAT_SECONDS if self._keeping.held else IDLE_BEAT_SECONDS
        beat_is_due = now - self._beaten_at >= beat_seconds
        if now < self._retry_at or not (due or beat_is_due):
            return
        try:
            if due:
                self._renew(due)
            if beat_is_due:
                self._beat()
        except (psycopg.Error, HudhudError) as error:
            self._recover(error)
        else:
            self._backoff.reset()

    def _renew(self, due: list[UUID]) -> None:
        keeping = self._keeping
        # The time of a lease counts from before the question, never from the later answer.
        asked_at = time.monotonic()
        call = runs.renew(keeping.worker_id, due, keeping.lease_seconds)
        # Ids compare as text: the loop may have kept them the way its connection read them.
        renewed = {str(lease_id) for lease_id in run_call(self._connected(), call)}
        keeping.held.renew([lease for lease in due if str(lease) in renewed], asked_at)
        for lease_id in due:
            if str(lease_id) not in renewed and keeping.held.release(lease_id):
                emit("lease.lost", lease_id=lease_id)
                keeping.tell_lost(lease_id)

    def _beat(self) -> None:
        keeping = self._keeping
        asked_at = time.monotonic()
        # Each time anew until the run has ended: the loop may not have heard of the run yet.
        for job_id, run in run_call(self._connected(), runs.beat(keeping.worker_id)):
            keeping.tell_cancel(job_id, run)
        self._beaten_at = asked_at

    def _connected(self) -> Connection[TupleRow]:
        if self._connection is None:
            self._connection = connect(self._keeping.url, "lease")
        return self._connection

    def _recover(self, error: Exception) -> None:
        self._disconnect()
        delay_seconds = self._backoff.next_delay_seconds()
        self._retry_at = time.monotonic() + delay_seconds
        emit("lease.keeper_failed", error=error, retry_seconds=delay_seconds)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
