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
    from collections.abc import Callable, Iterator, Mapping

    from bench.engine.process import Process
    from bench.engine.server import Connection, Database, Server
    from bench.engine.sizes import Size

GAP_SECONDS: Final = (0.03, 0.07)
SETTLE_SECONDS: Final = 2.0
CONCURRENCY: Final = 100


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Enqueue one job after another into an idle queue and wait for each to start."""
    with server.database() as database, worker(database.dsn, concurrency=CONCURRENCY) as process:
        database.wait_for_worker()
        time.sleep(SETTLE_SECONDS)
        found = probe(database, process, size.pickups)
    note = "From the moment when the client knows of the commit until the handler starts."
    bounds = ((3.0, 2.0), (8.0, 5.0))
    for measurement in figures("pickup", found, bounds=bounds, note=note):
        say(f"{measurement.bench} {measurement.value:.2f} ms")
        yield measurement


def figures(
    name: str,
    found: tuple[list[float], list[float]],
    *,
    bounds: tuple[tuple[float | None, float | None], ...],
    note: str,
) -> Iterator[Measurement]:
    """Return the rows of the median and of the 99th percentile.

    Args:
        name: What both begin with.
        found: As `probe` returns it.
        bounds: Target and goal of each, in milliseconds.
        note: What they mean.
    """
    after_commit, after_call = found
    detail: dict[str, object] = {
        "samples": len(after_commit),
        "p90_ms": round(percentile(after_commit, 0.9), 2),
        "max_ms": round(max(after_commit), 2),
        "from_call_p50_ms": round(percentile(after_call, 0.5), 2),
        "from_call_p99_ms": round(percentile(after_call, 0.99), 2),
    }
    for share, (target, goal) in zip((50, 99), bounds, strict=True):
        value = percentile(after_commit, share / 100)
        yield Measurement(
            f"{name}_p{share}",
            "ms",
            [value],
            value,
            target=Target("value", "<=", target) if target else None,
            goal=Target("value", "<=", goal) if goal else None,
            note=note,
            detail=detail,
        )


def enqueue(connection: Connection, payload: Mapping[str, object]) -> None:
    """Send one job."""
    Client().enqueue(connection, NewJob(jobs.TYPE, payload))


def probe(
    database: Database,
    process: Process,
    amount: int,
    *,
    send: Callable[[Connection, Mapping[str, object]], None] = enqueue,
) -> tuple[list[float], list[float]]:
    """Return, per job, the milliseconds from its commit and from its call to its start.

    Args:
        database: Where to send them.
        process: Whose board shows the starts.
        amount: How many.
        send: Makes a job of a payload, and commits it.
    """
    sent = list[tuple[float, float]]()
    chance = random.Random(1)  # noqa: S311 - spreads the probes
    with database.connect() as connection:
        send(connection, jobs.payload(0))  # prepares the statement
        process.wait_for(1)
        for mark in range(amount):
            called = time.monotonic()
            send(connection, jobs.payload(mark) | {"mark": mark})
            sent.append((called, time.monotonic()))
            time.sleep(chance.uniform(*GAP_SECONDS))
    process.wait_for(amount + 1)
    starts = process.board.starts()
    after_commit = [1e3 * (starts[mark] - committed) for mark, (_, committed) in enumerate(sent)]
    after_call = [1e3 * (starts[mark] - called) for mark, (called, _) in enumerate(sent)]
    return after_commit, after_call
