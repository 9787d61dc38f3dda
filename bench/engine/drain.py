"""How fast one worker process empties a queue, and what that costs worker and server."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.engine import control, jobs
from bench.engine.measurement import Control, Target, middle
from bench.engine.process import module, worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.engine.measurement import Measurement
    from bench.engine.process import Process
    from bench.engine.server import Database, Server, Spent
    from bench.engine.sizes import Size

CONCURRENCY: Final = 1_000


@dataclass(frozen=True, slots=True)
class Drained:
    """What one drain came to; per job or per second.

    Attributes:
        rate: Jobs per second, from the first handler's start until the last is settled.
        worker_us: Worker CPU per job in microseconds.
        server_ms: Server CPU per 1,000 jobs in milliseconds, from the first handler's start.
        life_ms: The same from the bulk enqueue on.
        wal_bytes: WAL per job, from the bulk enqueue on.
        peak_mib: The most memory that the worker had.
    """

    rate: float
    worker_us: float
    server_ms: float
    life_ms: float
    wal_bytes: float
    peak_mib: float


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Drain our queue and the controls', in turn and shuffled, each round in fresh databases."""
    ours: list[Drained] = []
    leans: list[Drained] = []
    bares: list[Drained] = []
    for number in range(size.rounds):
        sides = [(hudhud, ours), (lean, leans), (bare, bares)]
        random.Random(number).shuffle(sides)  # noqa: S311 - an order, not a secret
        for side, found in sides:
            with server.database() as database:
                found.append(side(database, size.drain_jobs))
            name = side.__name__
            say(f"round {number + 1} of {size.rounds}: {name} {found[-1].rate:,.0f} jobs/s")
    yield from figures(ours, leans)
    yield middle(
        "drain_against_bare",
        "jobs/s",
        [one.rate for one in ours],
        against=Control("bare worker", [one.rate for one in bares]),
        note="The same against the fastest worker that we could write: no fence of each end, only"
        " whole leases, batches of 1,000.",
    )


def figures(ours: list[Drained], controls: list[Drained]) -> Iterator[Measurement]:
    """Return the rows of drains and of the control's beside them."""

    def row(
        bench: str,
        unit: str,
        field: str,
        *,
        target: Target | None = None,
        goal: Target | None = None,
        note: str = "",
    ) -> Measurement:
        return middle(
            bench,
            unit,
            [getattr(one, field) for one in ours],
            against=Control("smallest honest worker", [getattr(one, field) for one in controls]),
            target=target,
            goal=goal,
            note=note,
        )

    yield row(
        "drain",
        "jobs/s",
        "rate",
        target=Target("ratio", ">=", 0.6),
        goal=Target("ratio", ">=", 0.75),
        note="One worker process, no-op async handler, one task per job, history kept.",
    )
    yield row("worker_cpu", "us/job", "worker_us", note="The worker process, all its threads.")
    yield row(
        "server_cpu",
        "ms/1000 jobs",
        "server_ms",
        target=Target("value", "<=", 12),
        goal=Target("value", "<=", 10),
        note="Claim to finished.",
    )
    yield row(
        "server_cpu_life",
        "ms/1000 jobs",
        "life_ms",
        note="Bulk enqueue to finished; the control's jobs are made by one INSERT ... SELECT.",
    )
    yield row(
        "wal",
        "bytes/job",
        "wal_bytes",
        target=Target("value", "<=", 1_200),
        goal=Target("value", "<=", 1_000),
        note="Bulk enqueue to finished, history kept, full-page writes included.",
    )


def hudhud(database: Database, amount: int) -> Drained:
    """Load and drain our queue."""
    before = database.spent()
    with database.connect() as connection:
        jobs.announce(connection)
        jobs.load(connection, amount)
    loaded = database.spent()
    database.settle()
    settled = database.spent()
    with worker(database.dsn, concurrency=CONCURRENCY) as process:
        drained = watch(process, database, amount, spent=(before, loaded, settled), schema="hudhud")
    check(database, amount, "hudhud")
    return drained


def lean(database: Database, amount: int) -> Drained:
    """Load and drain the queue of the smallest honest worker."""
    return smallest_worker(database, amount, "lean")


def bare(database: Database, amount: int) -> Drained:
    """Load and drain the queue of the fastest worker that we could write."""
    return smallest_worker(database, amount, "bare")


def smallest_worker(database: Database, amount: int, kind: str) -> Drained:
    """Load and drain a control's queue."""
    before = database.spent()
    control.prepare(database, amount)
    loaded = database.spent()
    database.settle()
    settled = database.spent()
    with module("control", database.dsn, kind) as process:
        drained = watch(
            process, database, amount, spent=(before, loaded, settled), schema="control"
        )
    check(database, amount, "control")
    return drained


def watch(
    process: Process,
    database: Database,
    amount: int,
    *,
    spent: tuple[Spent, Spent, Spent],
    schema: str,
) -> Drained:
    """Wait for a drain and reckon up what it took.

    Args:
        process: The worker.
        database: Its database.
        amount: Of jobs.
        spent: What the server had spent before the load, after it, and after the checkpoint.
        schema: Whose ready and lease tables are empty at the end.
    """
    process.wait_for(1)
    began = database.spent()
    cpu = process.cpu_seconds()
    process.wait_for(amount)
    ended_at = database.wait_until_drained(schema)
    ended, cpu = database.spent(), process.cpu_seconds() - cpu
    before, loaded, settled = spent
    server_seconds = ended.cpu_seconds - began.cpu_seconds
    load_seconds = loaded.cpu_seconds - before.cpu_seconds
    wal = loaded.wal_bytes - before.wal_bytes + ended.wal_bytes - settled.wal_bytes
    return Drained(
        rate=amount / (ended_at - process.board.first_at),
        worker_us=cpu * 1e6 / amount,
        server_ms=server_seconds * 1e6 / amount,
        life_ms=(server_seconds + load_seconds) * 1e6 / amount,
        wal_bytes=wal / amount,
        peak_mib=process.resident_mib(peak=True),
    )


def check(database: Database, amount: int, schema: str) -> None:
    """Make sure that what was measured is what was meant: every job has succeeded."""
    row = database.admin.execute(
        f"select count(*) from {schema}.outcome where outcome = 'succeed'".encode()  # noqa: S608
    ).fetchone()
    assert row == (amount,), f"{row} instead of {amount} succeeded jobs"
