"""A worker that claims nothing by itself: jobs are run one at a time, when they are asked for."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from psycopg import AsyncConnection, Connection
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from typing_extensions import override

from hudhud.config import WorkerConfig
from hudhud.domain.payload import load
from hudhud.drivers.psycopg import arun
from hudhud.errors import ConfigError, InvalidJobError
from hudhud.store import events, runs
from hudhud.store.reads import Read
from hudhud.testing.drained import EndedRun
from hudhud.worker.batch import Batch
from hudhud.worker.connection import aconnect
from hudhud.worker.worker import Addresses, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from psycopg.rows import TupleRow

    from hudhud.store.call import Statement
    from hudhud.worker.context import Context
    from hudhud.worker.runner import Attempt
    from hudhud.worker.worker import Application

T = TypeVar("T")

LEASE_SECONDS: Final = 3_600  # nothing renews it here
# One job at a time; the others are for runs that were given up and whose function goes on.
SLOTS: Final = 100
_EVENTS: Final = 1_000
_LOST: Final = {"outcome": "lost", "code": None, "result": None}


class Bench(Worker):
    """The parts of a worker that run a job, without those that look for one.

    Attributes:
        application: Whose handlers run.
    """

    def __init__(self, application: Application, url: str) -> None:
        """Make a bench; nothing is opened before `start`."""
        super().__init__(application, Addresses(url, url), WorkerConfig(concurrency=SLOTS))
        self._connection: AsyncConnection[TupleRow] | None = None
        self.application = application
        self._closed = asyncio.Event()
        self._errors: dict[UUID, BaseException] = {}
        self.runner.attempt = self._watched(self.runner.attempt)

    @override
    async def start(self) -> None:
        """Open the application's lifespan, make its types known, and be ready to run jobs."""
        self._connection = await aconnect(self._addresses.database_url, "testing")
        await self._open()
        outbox = self.application.outbox
        await self.do(runs.announce(self.application.registry.announcement()))
        # What a test publishes before its first drain is meant for the subscriptions, too.
        subscriptions = [
            {**one, "start": "beginning" if one["start"] == "now" else one["start"]}
            for one in outbox.announced_subscriptions()
        ]
        await self.do(events.announce_events(outbox.announced_types(), subscriptions))
        for loop in (self.desk, self.finisher, self.runner):
            loop.start()
            await loop.ready()

    async def do(self, statement: Statement[T]) -> T:
        """Run a call or a read on the bench's own connection."""
        assert self._connection is not None
        return await arun(self._connection, statement)

    async def run_next(
        self, queues: Sequence[str] | None = None, *, lease_seconds: int = LEASE_SECONDS
    ) -> EndedRun | None:
        """Run the job that is due next, to the end of its run; events become jobs for that.

        Args:
            queues: Names of queues; None for all.
            lease_seconds: Of the claim; 0 lets it be rescued as soon as nobody works on it.

        Returns:
            None when nothing is due.
        """
        batch = await self._claim(queues, lease_seconds)
        if batch is None and await self._route():
            batch = await self._claim(queues, lease_seconds)
        if batch is None:
            return None
        self._closed.clear()
        self.runner.take(batch)
        await self._closed.wait()
        return await self._ended(batch)

    async def _route(self) -> int:
        """Make jobs of the events that were committed; return how many."""
        names = await self.do(events.due_subscriptions())
        return sum([(await self.do(events.relay(name, _EVENTS))).routed for name in names])

    async def _claim(self, queues: Sequence[str] | None, lease_seconds: int) -> Batch | None:
        names = None if queues is None else list(queues)
        for place in await self.do(Read("testing_ready", {"queues": names})):
            request = runs.ClaimRequest(
                self.id,
                str(place["queue"]),
                lanes=[int(str(place["lane"]))],
                tenants=[str(place["tenant_id"])],
                marks=[0],
                quanta=[1],
                lease_seconds=lease_seconds,
            )
            claimed = await self.do(runs.claim(request))
            return None if claimed is None else Batch(claimed)
        return None

    async def _ended(self, batch: Batch) -> EndedRun:
        claimed = batch.claimed
        params = {"job_id": claimed.job_ids[0], "run": claimed.runs[0]}
        rows = await self.do(Read("testing_outcome", params))
        row: dict[str, Any] = rows[0] if rows else _LOST
        return EndedRun(
            UUID(str(claimed.job_ids[0])),
            claimed.types[0],
            claimed.versions[0],
            claimed.tenant_ids[0],
            _payload(claimed.payloads[0]),
            run=claimed.runs[0],
            attempt=claimed.attempts[0],
            outcome=row["outcome"],
            code=row["code"],
            result=None if row["result"] is None else json.loads(row["result"]),
            error=self._errors.pop(batch.lease_id, None),
        )

    def _watched(self, attempt: Attempt) -> Attempt:
        """Keep what handlers raise, for the person who reads the test."""

        async def watched(context: Context) -> object:
            try:
                return await attempt(context)
            except BaseException as error:
                self._errors[context.batch.lease_id] = error
                raise

        return watched

    @override
    async def _leave(self) -> None:
        await super()._leave()
        if self._connection is not None:
            await self._connection.close()

    @override
    def _close_batch(self, batch: Batch) -> None:
        super()._close_batch(batch)
        self._closed.set()


@asynccontextmanager
async def opened(application: Application, url: str) -> AsyncGenerator[Bench]:
    """Open a bench on this event loop for the length of a block."""
    bench = Bench(application, url)
    try:
        await bench.start()
        yield bench
    finally:
        await bench.stop()


def _payload(text: str | None) -> Mapping[str, Any]:
    """Return a payload as far as it can be read."""
    try:
        return load(text or "{}")
    except InvalidJobError:
        return {}


def address_of(app: object, place: object) -> str:
    """Return the address of a database.

    Args:
        app: The application, asked for `database_url` when no place is given.
        place: An address, a psycopg connection, or None.

    Raises:
        ConfigError: It is none of these, or a connection inside an open transaction, whose work
            other connections cannot see.
    """
    if isinstance(place, str):
        return place
    if isinstance(place, (Connection, AsyncConnection)):
        return _of_connection(place)  # pyright: ignore[reportUnknownArgumentType] - its row type
    if place is None and isinstance(url := getattr(app, "database_url", None), str):
        return url
    message = (
        f"{place!r} does not say where the database is."
        " Pass its address or a psycopg connection, or give the application its address."
    )
    raise ConfigError(message)


def _of_connection(connection: Connection[Any] | AsyncConnection[Any]) -> str:
    info = connection.info
    if info.transaction_status is not TransactionStatus.IDLE:
        message = (
            "The connection is inside a transaction, and jobs are run on connections of their own,"
            " which see only what is committed. Commit first."
        )
        raise ConfigError(message)
    return make_conninfo(info.dsn, **({"password": info.password} if info.password else {}))
