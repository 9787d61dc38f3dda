"""Run jobs as they are committed: when your commit returns, the job has been run."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from hudhud.client import AsyncClient, Client
from hudhud.errors import HudhudError
from hudhud.testing.address import address_of
from hudhud.testing.commits import Commits
from hudhud.testing.drain import drain
from hudhud.testing.drained import Drained

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from hudhud.domain.job import Enqueued, NewJob
    from hudhud.hudhud import Hudhud

RUN_SECONDS_MAX: Final = 60.0

# Set where jobs are run: what their handlers enqueue is run by the same drain, after them.
_is_draining: ContextVar[bool] = ContextVar("hudhud_testing_is_draining", default=False)


class StuckError(HudhudError):
    """A job run inline does not end. Does its handler need what your open transaction holds?"""


class Inline:
    """An application whose jobs run as soon as they are committed.

    Attributes:
        runs: What has been run so far.
    """

    def __init__(self, app: Hudhud, url: str, *, scheduled: bool) -> None:
        self.runs = Drained((), 0)
        self.commits = Commits(self._drain)
        self._app = app
        self._url = url
        self._scheduled = scheduled
        self._turn = threading.Lock()
        self._failures: list[BaseException] = []

    def settle(self) -> None:
        """Run what is due now, however it was enqueued.

        Raises:
            StuckError: A job does not end.
            HudhudError: Whatever kept jobs from being run, now or at a commit before.
        """
        self._drain()
        failures, self._failures = self._failures, []
        if failures:
            raise failures[0]

    def _drain(self) -> None:
        """Run what is due in a thread of its own, for here an event loop may be running."""
        thread = threading.Thread(target=self._run_due, name="hudhud-inline", daemon=True)
        thread.start()
        thread.join(RUN_SECONDS_MAX)
        if thread.is_alive():
            self._failures.append(StuckError())

    def _run_due(self) -> None:
        _is_draining.set(True)
        try:
            with self._turn:
                ended = drain(self._app, self._url, scheduled=self._scheduled)
                self.runs = Drained([*self.runs, *ended], ended.waiting)
        except BaseException as failure:  # noqa: BLE001 - raised by settle, not by somebody's commit
            self._failures.append(failure)


@contextmanager
def inline(app: Hudhud, place: object = None, *, scheduled: bool = False) -> Generator[Inline]:
    """Run every job of an application right after the commit that enqueued it.

    Inside the block jobs enqueued through the application (or its `client` and `aclient`) on
    psycopg, or SQLAlchemy or Django on psycopg, have been run when the commit returns; all others
    when `settle` is called, and when the block ends. A rolled back job is not run.

    Args:
        app: The application.
        place: Address of the database, or a psycopg connection to it; None: the application's own.
        scheduled: Whether to run at once, too, what would be due later: delays, retries, snoozes.

    Raises:
        StuckError: At the block's end, or by `settle`: a job does not end.
        HudhudError: Likewise: whatever kept jobs from being run.

    Source: testing/commits.py
    """
    inlined = Inline(app, address_of(app, place), scheduled=scheduled)
    clients = app.client, app.aclient
    app.client, app.aclient = _Client(inlined.commits), _AsyncClient(inlined.commits)
    try:
        yield inlined
        inlined.settle()
    finally:
        app.client, app.aclient = clients
        inlined.commits.close()


class _Client(Client):
    """Watches the transactions in which it makes jobs."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    @override
    def enqueue(self, connection: object, new_job: NewJob, *, notify: bool = True) -> Enqueued:
        enqueued = super().enqueue(connection, new_job, notify=notify)
        self._watch(connection)
        return enqueued

    @override
    def enqueue_many(
        self, connection: object, new_jobs: Sequence[NewJob], *, notify: bool = True
    ) -> list[Enqueued]:
        enqueued = super().enqueue_many(connection, new_jobs, notify=notify)
        self._watch(connection)
        return enqueued

    def _watch(self, connection: object) -> None:
        if not _is_draining.get():
            self._commits.watch(connection)


class _AsyncClient(AsyncClient):
    """Does what `_Client` does."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    @override
    async def enqueue(
        self, connection: object, new_job: NewJob, *, notify: bool = True
    ) -> Enqueued:
        enqueued = await super().enqueue(connection, new_job, notify=notify)
        await self._watch(connection)
        return enqueued

    @override
    async def enqueue_many(
        self, connection: object, new_jobs: Sequence[NewJob], *, notify: bool = True
    ) -> list[Enqueued]:
        enqueued = await super().enqueue_many(connection, new_jobs, notify=notify)
        await self._watch(connection)
        return enqueued

    async def _watch(self, connection: object) -> None:
        if not _is_draining.get():
            await self._commits.awatch(connection)
