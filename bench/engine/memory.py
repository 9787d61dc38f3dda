"""How much memory a worker process takes: idle, and with a backlog that it drains."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from bench.engine import jobs
from bench.engine.measurement import Measurement, Target
from bench.engine.process import worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.engine.server import Server
    from bench.engine.sizes import Size

SETTLE_SECONDS: Final = 3.0
IDLE_CONCURRENCY: Final = 100  # the default
CONCURRENCY: Final = 1_000


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Start a worker with nothing to do, then one with a backlog."""
    with server.database() as database:
        with worker(database.dsn, concurrency=IDLE_CONCURRENCY) as process:
            database.wait_for_worker()
            time.sleep(SETTLE_SECONDS)
            idle = process.resident_mib()
        with database.connect() as connection:
            jobs.load(connection, size.backlog_jobs)
        database.settle()
        with worker(database.dsn, concurrency=CONCURRENCY) as process:
            process.wait_for(size.backlog_jobs)
            database.wait_until_drained()
            busy = process.resident_mib(peak=True)
    say(f"idle {idle:.1f} MiB, with a backlog {busy:.1f} MiB")
    yield Measurement(
        "memory_idle",
        "MiB",
        [idle],
        idle,
        target=Target("value", "<=", 60),
        goal=Target("value", "<=", 55),
        note="Resident memory of a worker process that has nothing to do.",
    )
    yield Measurement(
        "memory_backlog",
        "MiB",
        [busy],
        busy,
        target=Target("value", "<=", 80),
        note=f"The most while it drains {size.backlog_jobs:,} jobs, {CONCURRENCY:,} at once.",
    )
