"""A worker process: everything that claims, runs and settles jobs, started and stopped as one."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID, uuid4

import psycopg

from hudhud.store import events, runs
from hudhud.telemetry import emit
from hudhud.worker.claimer import Claimer, ClaimSettings
from hudhud.worker.desk import Desk
from hudhud.worker.finisher import Finisher
from hudhud.worker.lease import LeaseKeeper
from hudhud.worker.link import Link
from hudhud.worker.maintainer import Maintainer
from hudhud.worker.pools import Pools
from hudhud.worker.relay import HINT, Relay
from hudhud.worker.relay_watch import RelayWatch
from hudhud.worker.runner import Runner
from hudhud.worker.waker import Waker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from hudhud.config import WorkerConfig
    from hudhud.worker.batch import Batch
    from hudhud.worker.context import Context
    from hudhud.worker.handler import Kind
    from hudhud.worker.outbox import Outbox
    from hudhud.worker.provider import AnyProvider
    from hudhud.worker.registry import Registry
    from hudhud.worker.run import Run
    from hudhud.worker.runner import Attempt
    from hudhud.worker.service import Service

    Middleware = Callable[[Context, Attempt], Awaitable[object]]

# What a loop may take to end beyond the time that handlers get: statements in flight, the last
# finish. Together with the default of `stop_seconds` it stays below an orchestrator's 30 s.
STOP_SECONDS_MAX: Final = 4.0


class Application(Protocol):
    """What a worker needs to know of the user's application; `Hudhud` is one."""

    @property
    def registry(self) -> Registry:
        """Its handlers."""
        ...

    @property
    def outbox(self) -> Outbox:
        """Its event types and subscriptions."""
        ...

    @property
    def middleware(self) -> Sequence[Middleware]:
        """What is wrapped around each attempt, the outermost first."""
        ...

    @property
    def providers(self) -> Sequence[AnyProvider]:
        """The services outside that its effects reach."""
        ...

    def lifespan_context(self) -> AbstractAsyncContextManager[Any]:
        """Open what its handlers share; the value becomes `ctx.state`."""
        ...


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the database is: for everything, and for LISTEN, which must not go through a pooler."""

    database_url: str
    direct_url: str


class Worker:
    """One worker process, for some queues.

    Attributes:
        id: New with each start, so that nobody inherits a dead worker's leases by its name.
    """

    def __init__(
        self, application: Application, addresses: Addresses, config: WorkerConfig
    ) -> None:
        """Make a worker; nothing is opened before `start`."""
        self.id: UUID = uuid4()
        self.config = config
        self._application = application
        self._addresses = addresses
        self._stack = AsyncExitStack()
        self._stop_wanted = asyncio.Event()
        self._batches: dict[UUID, Batch] = {}
        url = addresses.database_url
        self._claims = Link(url, "claims")
        self._finishes = Link(url, "finishes")
        self.finisher = Finisher(self._finishes, on_closed=self._close_batch)
        self.desk = Desk(
            url,
            connections=config.connections,
            on_settled=self._committed,
        )
        processes = os.cpu_count() or 1
        self.pools = Pools(threads=config.threads, processes=processes, on_worn=self.ask_to_stop)
        self.runner = Runner(
            application.registry,
            self.finisher,
            desk=self.desk,
            pools=self.pools,
            slots={"async": config.concurrency, "thread": config.threads, "process": processes},
        )
        self.desk.interrupt = self.runner.interrupt
        self.runner.attempt = _wrapped(self.runner.call_handler, application.middleware)
        self.waker = Waker(addresses.direct_url, (*config.queues, HINT), self.id)
        self.keeper = LeaseKeeper(
            url,
            self.id,
            lease_seconds=config.lease_seconds,
            on_lost=self._lose,
            on_cancel=self.runner.cancel,
        )
        self.maintainer = Maintainer(url, addresses.direct_url)
        names = [one.name for one in application.outbox.subscriptions]
        self.relay = Relay(
            url,
            self.waker.event(HINT),
            watch=RelayWatch(names),
            is_heard=lambda: self.waker.is_ready and not self.waker.is_pooled,
        )
        self.claimers = [self._claimer(queue) for queue in config.queues]

    @property
    def is_ready(self) -> bool:
        """Whether it claims and finishes jobs."""
        loops = (*self.claimers, self.finisher, self.runner, self.keeper)
        return all(loop.is_ready for loop in loops)

    async def run(self) -> None:
        """Work until `ask_to_stop`, then stop within the configured time."""
        try:
            await self.start()
            await self._stop_wanted.wait()
        finally:
            await self.stop()

    def ask_to_stop(self) -> None:
        """Make `run` end; safe to call more than once."""
        self._stop_wanted.set()

    def hurry(self) -> None:
        """Let a stop interrupt what runs at once; safe to call more than once."""
        self.runner.hurry()

    async def start(self) -> None:
        """Make the types and this process known, then begin to claim.

        Raises:
            HudhudError: When the schema does not fit, or the database refuses.
            psycopg.OperationalError: When the database cannot be reached.
        """
        await self._open()
        await self._register()
        for loop in (self.desk, self.finisher, self.keeper, self.runner, self.waker):
            loop.start()
        await asyncio.gather(*(loop.ready() for loop in (self.desk, self.finisher, self.runner)))
        self.maintainer.start()
        self.relay.start()
        for claimer in self.claimers:
            claimer.start()
        emit("worker.started", worker_id=self.id, queues=self.config.queues)

    async def stop(self, *, within_seconds: float | None = None) -> None:
        """Claim no more, hand back what has not started, end what runs, settle everything.

        Args:
            within_seconds: For the handlers that run; None takes the configuration's.
        """
        seconds = self.config.stop_seconds if within_seconds is None else within_seconds
        deadline = time.monotonic() + seconds
        try:
            await _stop(*self.claimers, self.relay, self.waker)
            await self.runner.close(deadline)
            await _stop(self.finisher, self.maintainer, self.runner, self.desk)
            await _stop(self.keeper)
            self.pools.close()
            await self._leave()
        finally:
            await self._stack.aclose()
        emit("worker.stopped", worker_id=self.id)

    async def _open(self) -> None:
        """Open what handlers share and the providers' clients, until the worker has stopped."""
        self.desk.state = await self._stack.enter_async_context(
            self._application.lifespan_context()
        )
        for provider in self._application.providers:
            reached = await self._stack.enter_async_context(provider.reached())
            self.desk.providers[provider] = reached

    async def _register(self) -> None:
        registry = self._application.registry
        outbox = self._application.outbox
        await self._claims.run(runs.announce(registry.announcement()))
        await self._claims.run(
            events.announce_events(outbox.announced_types(), outbox.announced_subscriptions())
        )
        await self._claims.run(
            runs.register_worker(
                runs.NewWorker(
                    self.id,
                    f"{socket.gethostname()}:{os.getpid()}",
                    socket.gethostname(),
                    os.getpid(),
                    self.config.queues,
                    registry.contracts,
                    version("hudhud"),
                )
            )
        )

    async def _leave(self) -> None:
        """Close what is open, as far as a database that does not answer allows."""
        closing = asyncio.ensure_future(self._close())
        await asyncio.wait({closing}, timeout=STOP_SECONDS_MAX)
        if closing.done():
            closing.result()
        else:
            emit("worker.leave_failed", error=None)
            closing.cancel()

    async def _close(self) -> None:
        try:
            await self._claims.run(runs.leave(self.id))
        except psycopg.OperationalError as error:
            # Its row tells by its age that nobody is behind it.
            emit("worker.leave_failed", error=error)
        for one in (self._claims, self._finishes, self.desk):
            await one.close()

    def _claimer(self, queue: str) -> Claimer:
        settings = ClaimSettings(
            self.id,
            self.config.lease_seconds,
            self.config.batch_jobs_max,
            self.config.poll_seconds_min,
            self.config.poll_seconds_max,
        )
        return Claimer(
            queue,
            self._claims,
            self.runner,
            settings=settings,
            hint=self.waker.event(queue),
            on_claimed=self._take,
        )

    def _committed(self, run: Run) -> None:
        self.runner.committed(run)

    def _take(
        self, batch: Batch, asked_at: float, rooms: Mapping[Kind, int]
    ) -> dict[str, set[Kind]]:
        self._batches[batch.lease_id] = batch
        self.keeper.hold(batch.lease_id, asked_at)
        return self.runner.take(batch, rooms)

    def _close_batch(self, batch: Batch) -> None:
        self._batches.pop(batch.lease_id, None)
        self.keeper.release(batch.lease_id)
        if batch.is_lost:
            self.runner.lose(batch)
        if batch.is_suspect:
            self.waker.wake_all()  # the next one may be tried

    def _lose(self, lease_id: UUID) -> None:
        batch = self._batches.pop(lease_id, None)
        if batch is not None:
            self.runner.lose(batch)


async def _stop(*services: Service) -> None:
    """Stop services, for which a database that does not answer is no reason to stay."""
    await asyncio.gather(*(one.stop(within_seconds=STOP_SECONDS_MAX) for one in services))


def _wrapped(attempt: Attempt, middleware: Sequence[Middleware]) -> Attempt:
    for layer in reversed(middleware):
        attempt = partial(layer, call_next=attempt)  # type: ignore[call-arg]
    return attempt
