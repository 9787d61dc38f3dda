"""What all runs of a worker process share: connections for handlers, their state, their log."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.errors import ReadOnlySqlTransaction
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from typing_extensions import override

from hudhud.domain.redact import redact
from hudhud.drivers.base import arun
from hudhud.drivers.base import run as run_call
from hudhud.errors import HudhudError
from hudhud.store import runs
from hudhud.telemetry import emit
from hudhud.worker.connection import conninfo
from hudhud.worker.lent import AsyncLent, Lent
from hudhud.worker.link import Link
from hudhud.worker.service import Service

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hudhud.store.call import Call
    from hudhud.worker.provider import AnyProvider, Reached
    from hudhud.worker.run import Run

T = TypeVar("T")

_FLUSH_SECONDS = 0.5
_LINES_MAX = 1_000  # of one run and flush; what a handler writes beyond is dropped and counted
_TIMEOUT_SECONDS = 30.0


@dataclass(slots=True)
class _Dropped:
    """What could not be kept of a run's log, until that is told."""

    lines: int = 0
    error: Exception | None = None


class Desk(Service):
    """Lends connections to handlers and writes down what they log.

    Claims, finishes and renewals have connections of their own: handlers that hold every
    connection of these pools hold up nobody but each other.

    Attributes:
        state: What the application's lifespan yielded.
        providers: How each provider is reached; effects hand out the clients, and nobody else.
        interrupt: Interrupts a run on the loop that was asked to stop while it was in an effect.
    """

    def __init__(
        self,
        url: str,
        *,
        connections: int,
        on_settled: Callable[[Run], None],
    ) -> None:
        """Make a desk; pools open with the first handler that wants a connection.

        Args:
            url: Address of the database.
            connections: At most so many for async handlers, and as many for plain ones.
            on_settled: Told, on the loop, of a run that committed its own success.
        """
        super().__init__("desk")
        self.state: Any = None
        self.providers: dict[AnyProvider, Reached[Any]] = {}
        self.interrupt: Callable[[Run], None] = _interrupt_nothing
        self._on_settled = on_settled
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lines: dict[Run, list[dict[str, object]]] = {}
        self._dropped: dict[Run, _Dropped] = {}
        self._returns: set[asyncio.Task[None]] = set()
        # Not from the pools: handlers may hold every connection of those.
        self._link = Link(url, "log")
        settings: dict[str, Any] = {
            "min_size": 1,
            "max_size": connections,
            "timeout": _TIMEOUT_SECONDS,
            "open": False,
            "kwargs": {"autocommit": True, "prepare_threshold": None},
        }
        address = conninfo(url, "handler")
        self._async_pool = AsyncConnectionPool(
            address, connection_class=AsyncLent, configure=AsyncLent.prepare, **settings
        )
        self._sync_pool = ConnectionPool(
            address, connection_class=Lent, configure=Lent.prepare, **settings
        )

    @override
    async def run(self) -> None:
        """Write what was logged, a moment later and in one go per run, until a stop."""
        self._loop = asyncio.get_running_loop()
        self.mark_ready()
        while await self.pause(_FLUSH_SECONDS):
            await self._flush()
            self._tell_dropped([run for run in self._dropped if run.has_ended or run.batch.is_lost])
        error = await self._flush()
        for run, lines in self._lines.items():
            self._drop(run, len(lines), error)
        self._lines.clear()
        self._tell_dropped(list(self._dropped))

    async def close(self) -> None:
        """Close every connection; those that handlers still hold go when they come back."""
        await self._link.close()
        await self._async_pool.close()
        await asyncio.to_thread(self._sync_pool.close)

    async def async_pool(self) -> AsyncConnectionPool[AsyncLent]:
        """Return the pool for handlers on the loop, open."""
        if self._async_pool.closed:
            await self._async_pool.open()
        return self._async_pool

    def sync_pool(self) -> ConnectionPool[Lent]:
        """Return the pool for plain functions on their threads, open."""
        if self._sync_pool.closed:
            self._sync_pool.open()
        return self._sync_pool

    async def alend(self) -> AsyncLent:
        """Lend a connection for a run's transaction on the loop; `atake_back` is to follow."""
        return await (await self.async_pool()).getconn()

    def atake_back(self, connection: AsyncLent) -> None:
        """Take back a lent connection; who lent it may be cancelled, so it is not waited for."""
        task = asyncio.ensure_future(self._async_pool.putconn(connection))
        self._returns.add(task)
        task.add_done_callback(self._returns.discard)

    def lend(self) -> Lent:
        """As `alend`, for a plain function on its thread."""
        return self.sync_pool().getconn()

    def take_back(self, connection: Lent) -> None:
        """As `atake_back`."""
        self._sync_pool.putconn(connection)

    async def ask(self, call: Call[T]) -> tuple[T, bool]:
        """Run a call in a transaction of its own, on a connection of the pool.

        Returns:
            The answer, and whether the task was cancelled meanwhile: whoever asked must know what
            was committed before it stops.

        Raises:
            HudhudError: What the function refused.
            psycopg.OperationalError: The connection was lost; whether the call was committed is
                not known.
            asyncio.CancelledError: The task was cancelled, and there was no answer.
        """
        task = asyncio.ensure_future(self._ask(call))
        was_cancelled = False
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                was_cancelled = True
        if was_cancelled and task.exception() is not None:
            raise asyncio.CancelledError
        return task.result(), was_cancelled

    def ask_in_thread(self, call: Call[T]) -> T:
        """As `ask`, from a handler's thread."""
        with self.sync_pool().connection() as connection:
            try:
                return run_call(connection, call)
            except ReadOnlySqlTransaction as error:
                connection.close()  # a standby now: the pool is to find the primary
                raise psycopg.OperationalError(str(error)) from error

    async def _ask(self, call: Call[T]) -> T:
        pool = await self.async_pool()
        async with pool.connection() as connection:
            try:
                return await arun(connection, call)
            except ReadOnlySqlTransaction as error:
                await connection.close()  # as above
                raise psycopg.OperationalError(str(error)) from error

    async def shielded(self, work: Awaitable[object]) -> None:
        """Finish a commit or a rollback although the task around it is being cancelled.

        Cancelling a COMMIT would leave nobody knowing whether it happened.
        """
        task = asyncio.ensure_future(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_tell_failure)
            await asyncio.wait({task})
            raise

    def settled_elsewhere(self, run: Run) -> None:
        """Take note that a run's success is committed; may be called from any thread."""
        self._on_loop(self._on_settled, run)

    def write_log(self, run: Run, line: dict[str, object]) -> None:
        """Keep a line for the next flush; may be called from any thread."""
        line["message"] = redact(str(line["message"]))
        self._on_loop(self._keep, run, line)

    def _keep(self, run: Run, line: dict[str, object]) -> None:
        lines = self._lines.setdefault(run, [])
        if len(lines) < _LINES_MAX:
            lines.append(line)
        else:
            self._drop(run, 1)

    def _drop(self, run: Run, lines: int, error: Exception | None = None) -> None:
        dropped = self._dropped.setdefault(run, _Dropped())
        dropped.lines += lines
        dropped.error = error or dropped.error

    def _tell_dropped(self, of_runs: list[Run]) -> None:
        """Tell once per run how many lines it lost: a handler may write many more than fit."""
        for run in of_runs:
            dropped = self._dropped.pop(run)
            emit("log.lines_dropped", job_id=run.job_id, lines=dropped.lines, error=dropped.error)

    def _on_loop(self, function: Callable[..., None], *args: Any) -> None:  # noqa: ANN401
        assert self._loop is not None
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            function(*args)
        else:
            self._loop.call_soon_threadsafe(function, *args)

    async def _flush(self) -> Exception | None:
        """Write what there is; what the database refuses is dropped.

        Returns:
            Why the rest was left for later: the database is away.
        """
        while self._lines:
            run = next(iter(self._lines))
            lines = self._lines.pop(run)
            try:
                await self._link.run(runs.write_log(run.job_id, run.run, lines))
            except (psycopg.Error, HudhudError) as error:
                self._drop(run, len(lines), error)
                if isinstance(error, psycopg.OperationalError):
                    return error
        return None


def _interrupt_nothing(_: Run) -> None:
    """Interrupt no run: there is no runner yet."""


def _tell_failure(task: asyncio.Future[object]) -> None:
    if not task.cancelled() and task.exception() is not None:
        emit("transaction.failed", error=task.exception())
