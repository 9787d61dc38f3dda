"""How soon a single job starts when there is nothing else to do: from its commit to its handler."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

from bench.engine import jobs
from bench.engine.measurement import Measurement, Target, percentile
from bench.engine.process import worker
from hudhud.client import Client
from hudhud.domain.job import NewJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.engine.process import Process
    from bench.engine.server import Database, Server
    from bench.engine.sizes import Size

GAP_SECONDS: Final = (0.03, 0.07)
SETTLE_SECONDS: Final = 2.0
CONCURRENCY: Final = 100


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Enqueue one job after another into an idle queue and wait for each to start."""
    with server.database() as database, worker(database.dsn, concurrency=CONCURRENCY) as process:
        database.wait_for_worker()
        time.sleep(SETTLE_SECONDS)
        after_commit, after_call = probe(database, process, size.pickups)
    p50, p99 = (percentile(after_commit, share) for share in (0.5, 0.99))
    say(f"p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    detail: dict[str, object] = {
        "samples": len(after_commit),
        "p90_ms": round(percentile(after_commit, 0.9), 2),
        "max_ms": round(max(after_commit), 2),
        "from_call_p50_ms": round(percentile(after_call, 0.5), 2),
        "from_call_p99_ms": round(percentile(after_call, 0.99), 2),
    }
    note = "From the moment when the client knows of the commit until the handler starts."
    yield Measurement(
        "pickup_p50",
        "ms",
        [p50],
        p50,
        target=Target("value", "<=", 3),
        goal=Target("value", "<=", 2),
        note=note,
        detail=detail,
    )
    yield Measurement(
        "pickup_p99",
        "ms",
        [p99],
        p99,
        target=Target("value", "<=", 8),
        goal=Target("value", "<=", 5),
        note=note,
        detail=detail,
    )


def probe(database: Database, process: Process, amount: int) -> tuple[list[float], list[float]]:
    """Return, per job, the milliseconds from its commit and from its enqueue call to its start."""
    client, sent = Client(), list[tuple[float, float]]()
    chance = random.Random(1)  # noqa: S311 - spreads the probes
    with database.connect() as connection:
        client.enqueue(connection, NewJob(jobs.TYPE, jobs.payload(0)))  # prepares the statement
        process.wait_for(1)
        for mark in range(amount):
            called = time.monotonic()
            client.enqueue(connection, NewJob(jobs.TYPE, jobs.payload(mark) | {"mark": mark}))
            sent.append((called, time.monotonic()))
            time.sleep(chance.uniform(*GAP_SECONDS))
    process.wait_for(amount + 1)
    starts = process.board.starts()
    after_commit = [1e3 * (starts[mark] - committed) for mark, (_, committed) in enumerate(sent)]
    after_call = [1e3 * (starts[mark] - called) for mark, (called, _) in enumerate(sent)]
    return after_commit, after_call
