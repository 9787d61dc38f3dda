"""Crash a handler at every await, let hudhud rescue the job, and see whether all is well."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from psycopg import BaseConnection
from typing_extensions import override

from hudhud.drivers.psycopg import run as run_on
from hudhud.errors import ConfigError
from hudhud.store import jobs, runs
from hudhud.store.reads import Read
from hudhud.testing.bench import address_of
from hudhud.testing.drain import NeverDrainedError, drain, require_no_loop
from hudhud.testing.drained import Drained
from hudhud.testing.mortal import Life, live
from hudhud.worker.connection import connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg import Connection
    from psycopg.rows import TupleRow

    from hudhud.domain.job import NewJob
    from hudhud.worker.worker import Application

POINTS_MAX: Final = 1_000
_CUT_SECONDS_MAX: Final = 30.0
_LOOK_SECONDS: Final = 0.002


class CrashPoint:
    """One moment at which a handler's process dies.

    Attributes:
        number: 0 is before the handler's first line, n its n-th await.
    """

    def __init__(self, app: Application, url: str, number: int) -> None:
        self.number = number
        self._app = app
        self._url = url
        self._life: Life | None = None

    @override
    def __repr__(self) -> str:
        if self._life is None:
            return f"crash point {self.number}: not run yet"
        return f"crash point {self.number}: {self._life.where or 'lived to its end'}"

    @property
    def has_run(self) -> bool:
        """Whether `run` was called."""
        return self._life is not None

    @property
    def has_crashed(self) -> bool:
        """Whether the handler got as far as this point, and died there."""
        return self._life is not None and self._life.where is not None

    def run(self, job: NewJob | None = None, *, queues: Sequence[str] | None = None) -> Drained:
        """Run a job, die at this point, and let hudhud bring everything to its end.

        Args:
            job: Enqueued and committed first, as in `refund.job(…)`. None: the next that is due.
            queues: Names of queues; None for all.

        Returns:
            The runs after the crash; without a crash, all of them.

        Raises:
            ConfigError: Nothing is due, or an event loop runs in this thread.
        """
        require_no_loop("`await point.arun(…)`")
        life = self._life = Life(self.number, queues)
        with closing(connect(self._url, "testing")) as control:
            if job is not None:
                run_on(control, jobs.enqueue(job))
            known = _sessions(control)
            live(self._app, self._url, life)
            if life.where is not None:
                _cut(control, known)
        if life.where is None and life.ended is None:
            message = (
                "Nothing is due, so nothing can be crashed. Is the job's idempotency key new at"
                " each point, and is its time come?"
            )
            raise ConfigError(message)
        rest = drain(self._app, self._url, queues=queues, scheduled=True)
        return Drained([*([life.ended] if life.ended else []), *rest], rest.waiting)

    async def arun(
        self, job: NewJob | None = None, *, queues: Sequence[str] | None = None
    ) -> Drained:
        """Do as `run` does, beside the running event loop, which stays free."""
        return await asyncio.to_thread(self.run, job, queues=queues)


def crash_points(
    app: Application, place: object = None, *, points_max: int = POINTS_MAX
) -> Iterator[CrashPoint]:
    """Go through every moment at which a handler's process can die.

    `for point in crash_points(app, url):` make a fresh world, call `point.run(handler.job(…))`, and
    assert your invariant; name the point in the assertion's message. The last turn is the one in
    which nothing crashes. Plain functions are crashed before they begin and after they have
    returned.

    Args:
        app: The application whose handlers run.
        place: Address of the database, or a psycopg connection to it; None: the application's own.
        points_max: After so many points an error; a handler may await without end.

    Raises:
        ConfigError: A turn of the loop ran nothing.

    Source: testing/mortal.py
    """
    url = address_of(app, place)
    for number in range(points_max):
        point = CrashPoint(app, url, number)
        yield point
        if not point.has_run:
            message = "The loop's body must call point.run(…), or await point.arun(…)."
            raise ConfigError(message)
        if not point.has_crashed:
            return
    message = (
        f"The handler has more than {points_max} awaits; give crash_points a larger points_max."
    )
    raise NeverDrainedError(message)


def _sessions(control: Connection[TupleRow]) -> dict[int, bool]:
    rows = run_on(control, Read("testing_sessions"))
    return {int(str(row["pid"])): bool(row["is_busy"]) for row in rows}


def _cut(control: Connection[TupleRow], known: dict[int, bool]) -> None:
    """End the sessions of a dead worker: those it opened, and idle ones it had begun to use."""
    doomed = {
        pid
        for pid, is_busy in _sessions(control).items()
        if pid not in known or is_busy > known[pid]
    }
    for pid in doomed:
        run_on(control, runs.end_session(pid))
    deadline = time.monotonic() + _CUT_SECONDS_MAX
    while doomed & _sessions(control).keys():
        assert time.monotonic() < deadline, "PostgreSQL did not end a session that it was told to"
        time.sleep(_LOOK_SECONDS)
    _close_far_ends(doomed)


def _close_far_ends(doomed: set[int]) -> None:
    """Close this process's ends of the sessions, past all code that would say goodbye."""
    for thing in gc.get_objects():
        # The type itself is asked: asking a lazy proxy for its class may wake whatever is behind.
        is_open = issubclass(type(thing), BaseConnection) and not thing.closed
        if is_open and thing.info.backend_pid in doomed:
            thing.pgconn.finish()
