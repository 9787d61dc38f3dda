"""hudhud as one more adapter of the harness that measures job queues beside each other.

The worker is the one that `hudhud worker` runs, with one async handler; jobs are made through the
application's object on a psycopg connection, as a user would; history is kept and everything is
durable. The type is announced before the first job, as in production, so every payload is checked.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import psycopg
from peer import Base, body

from hudhud.config import WorkerConfig
from hudhud.hudhud import Hudhud
from hudhud.store import migrate, runs
from hudhud.worker.worker import Addresses, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hudhud.worker.context import Context

app = Hudhud()


@app.handler("noop")
async def noop(
    _ctx: Context,
    *,
    i: int,  # noqa: ARG001
    user: str,  # noqa: ARG001
    template: str,  # noqa: ARG001
    pad: str,  # noqa: ARG001
    sleep: float = 0,
    k: int | None = None,
) -> None:
    """Count the call, as every peer's handler does."""
    await body({"sleep": sleep, "k": k})


class P(Base):
    """What the harness calls."""

    chunk = 1000

    async def open(self) -> None:
        """Connect; each enqueue commits."""
        self.connection = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)

    async def close(self) -> None:
        """Disconnect."""
        await self.connection.close()

    async def install(self) -> None:
        """Make the schema and announce the type, as a deployment does."""
        migrate.apply(self.dsn)
        await self.open()
        await app.aclient.run(self.connection, runs.announce(app.registry.announcement()))
        await self.close()

    async def enqueue(self, p: dict[str, object], high: bool = False) -> None:  # noqa: FBT001, FBT002
        """Make one job."""
        handler = noop.using(lane="critical") if high else noop
        await app.aenqueue(self.connection, handler, **p)

    async def bulk(self, ps: Sequence[dict[str, object]]) -> None:
        """Make many."""
        await app.aenqueue_many(self.connection, [noop.job(**p) for p in ps])

    async def worker(self, conc: int, otp: bool) -> None:  # noqa: ARG002, FBT001
        """Run jobs until told to stop; urgent ones need nothing set up for them."""
        worker = Worker(app, Addresses(self.dsn, self.dsn), WorkerConfig(concurrency=conc))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, worker.ask_to_stop)
        await worker.run()
