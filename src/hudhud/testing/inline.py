"""Run jobs as they are committed: when your commit returns, the job has been run."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard
from uuid import uuid4
from weakref import WeakSet

from psycopg import AsyncConnection, Connection
from typing_extensions import override

from hudhud.client import AsyncClient, Client
from hudhud.errors import HudhudError
from hudhud.testing.bench import address_of
from hudhud.testing.drain import drain
from hudhud.testing.drained import Drained

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from psycopg import Notify

    from hudhud.domain.event import NewEvent, Published
    from hudhud.domain.job import Enqueued, NewJob
    from hudhud.hudhud import Hudhud

AnyConnection: TypeAlias = "Connection[Any] | AsyncConnection[Any]"

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

    Inside the block jobs enqueued, and events published, through the application (or its `client`
    and `aclient`) on psycopg, or SQLAlchemy or Django on psycopg, have been run and handled when
    the commit returns; all others when `settle` is called, and when the block ends. What was rolled
    back is not run.

    Args:
        app: The application.
        place: Address of the database, or a psycopg connection to it; None: the application's own.
        scheduled: Whether to run at once, too, what would be due later: delays, retries, snoozes.

    Raises:
        StuckError: At the block's end, or by `settle`: a job does not end.
        HudhudError: Likewise: whatever kept jobs from being run.

    Source: the class Commits below
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
        self, connection: object, new_jobs: Iterable[NewJob], *, notify: bool = True
    ) -> list[Enqueued]:
        enqueued = super().enqueue_many(connection, new_jobs, notify=notify)
        self._watch(connection)
        return enqueued

    @override
    def publish(self, connection: object, new_event: NewEvent, *, notify: bool = True) -> Published:
        published = super().publish(connection, new_event, notify=notify)
        self._watch(connection)
        return published

    @override
    def publish_many(
        self, connection: object, new_events: Iterable[NewEvent], *, notify: bool = True
    ) -> list[Published]:
        published = super().publish_many(connection, new_events, notify=notify)
        self._watch(connection)
        return published

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
        self, connection: object, new_jobs: Iterable[NewJob], *, notify: bool = True
    ) -> list[Enqueued]:
        enqueued = await super().enqueue_many(connection, new_jobs, notify=notify)
        await self._watch(connection)
        return enqueued

    @override
    async def publish(
        self, connection: object, new_event: NewEvent, *, notify: bool = True
    ) -> Published:
        published = await super().publish(connection, new_event, notify=notify)
        await self._watch(connection)
        return published

    @override
    async def publish_many(
        self, connection: object, new_events: Iterable[NewEvent], *, notify: bool = True
    ) -> list[Published]:
        published = await super().publish_many(connection, new_events, notify=notify)
        await self._watch(connection)
        return published

    async def _watch(self, connection: object) -> None:
        if not _is_draining.get():
            await self._commits.awatch(connection)


class Commits:
    """Connections whose commits are told of, as long as this is open.

    A connection that listens to a channel is told of its own notifications, by the server, before
    the commit that sent them is answered; and of none that was rolled back. So PostgreSQL itself
    says what was committed, and says it in time.
    """

    def __init__(self, on_commit: Callable[[], None]) -> None:
        """Begin to tell.

        Args:
            on_commit: Called when a watched transaction has committed, in the thread of whoever
                commits, who waits for it. It must not raise.
        """
        self._on_commit = on_commit
        # Of this block alone: a connection that outlives it is told of nothing more.
        self._channel = f"hudhud_inline_{uuid4().hex}"
        self._statements = [f"{verb} {self._channel}".encode() for verb in ("listen", "notify")]
        self._watched: WeakSet[AnyConnection] = WeakSet()

    def watch(self, connection: object) -> None:
        """Watch the transaction that a synchronous connection is in, if its driver can tell."""
        raw = _raw(connection)
        if _is_sync(raw):
            self._listen(raw)
            for statement in self._statements:
                raw.execute(statement)

    async def awatch(self, connection: object) -> None:
        """Watch the transaction that an asynchronous connection is in, if its driver can tell."""
        raw = await _araw(connection)
        if _is_async(raw):
            self._listen(raw)
            for statement in self._statements:
                await raw.execute(statement)

    def close(self) -> None:
        """Tell of nothing any more."""
        for connection in list(self._watched):
            connection.remove_notify_handler(self._told)
        self._watched.clear()

    def _listen(self, raw: AnyConnection) -> None:
        if raw not in self._watched:
            raw.add_notify_handler(self._told)
            self._watched.add(raw)

    def _told(self, notify: Notify) -> None:
        if notify.channel == self._channel:
            self._on_commit()


def _is_sync(raw: object) -> TypeGuard[Connection[Any]]:
    return isinstance(raw, Connection)


def _is_async(raw: object) -> TypeGuard[AsyncConnection[Any]]:
    return isinstance(raw, AsyncConnection)


def _raw(connection: Any) -> object:  # noqa: ANN401 - of any driver
    """Return the driver's connection inside SQLAlchemy's or Django's."""
    package = _package(connection)
    if package == "sqlalchemy":
        # A Session has a method of that name, a Connection the pool's connection.
        has_method = callable(connection.connection)
        inner: Any = connection.connection() if has_method else connection
        raw: object = inner.connection.driver_connection
    else:
        raw = connection.connection if package == "django" else connection
    return raw


async def _araw(connection: Any) -> object:  # noqa: ANN401 - of any driver
    if _package(connection) != "sqlalchemy":
        return connection
    is_session = not hasattr(connection, "get_raw_connection")
    inner = await connection.connection() if is_session else connection
    raw: object = (await inner.get_raw_connection()).driver_connection
    return raw


def _package(connection: object) -> str:
    return type(connection).__module__.partition(".")[0]
