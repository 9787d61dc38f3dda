"""What a handler that only writes to the database gets done, against the same writes alone."""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from bench.engine import business, jobs
from bench.engine.measurement import Control, Target, middle
from bench.engine.process import module, worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.engine.measurement import Measurement
    from bench.engine.server import Database, Server
    from bench.engine.sizes import Size

TARGET: Final = 0.6


@dataclass(frozen=True, slots=True)
class Written:
    """What writing came to.

    Attributes:
        rate: Rows per second.
        process_us: CPU of the process that wrote, in microseconds per row.
        server_us: Of all the server's processes, likewise.
    """

    rate: float
    process_us: float
    server_us: float


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Run jobs that write one row each, and the same transactions in a bare loop."""
    for connections in size.connections:
        ours: list[Written] = []
        bares: list[Written] = []
        # The number of rows that all connections can share.
        amount = size.handler_jobs - size.handler_jobs % connections
        for number in range(size.rounds):
            sides = [(handled, ours), (looped, bares)]
            random.Random(number).shuffle(sides)  # noqa: S311 - an order, not a secret
            for side, found in sides:
                with server.database() as database:
                    with database.connect() as connection:
                        connection.execute(business.MAKE)
                    found.append(side(database, amount, connections))
                    check(database, amount)
                words = f"{connections} at once, {side.__name__}: {found[-1].rate:,.0f}/s"
                say(f"round {number + 1} of {size.rounds}: {words}")
        yield figure(ours, bares, connections)


def figure(ours: list[Written], bares: list[Written], connections: int) -> Measurement:
    """Return the row of so many connections."""
    return middle(
        f"handler_{connections}",
        "jobs/s",
        [one.rate for one in ours],
        against=Control("BEGIN, INSERT, COMMIT", [one.rate for one in bares]),
        target=Target("ratio", ">=", TARGET),
        note=f"One INSERT in ctx.transaction(), {connections} at once in one worker, against"
        " a bare loop with as many connections of the same driver.",
        detail={
            f"{name}_{field}": round(median(getattr(one, field) for one in found), 1)
            for name, found in (("worker", ours), ("bare", bares))
            for field in ("process_us", "server_us")
        },
    )


def handled(database: Database, amount: int, connections: int) -> Written:
    """Run jobs: from the first handler's start until the last is settled."""
    with database.connect() as connection:
        jobs.load(connection, amount, type_="write")
    database.settle()
    with worker(
        database.dsn,
        concurrency=connections,
        application="acting",
        connections=max(connections, 2),  # fewer no worker takes
    ) as process:
        process.wait_for(1)
        before, cpu_seconds = database.spent(), process.cpu_seconds()
        process.wait_for(amount)
        ended_at = database.wait_until_drained()
        spent, cpu_seconds = database.spent(), process.cpu_seconds() - cpu_seconds
        return Written(
            amount / (ended_at - process.board.first_at),
            1e6 * cpu_seconds / amount,
            1e6 * (spent.cpu_seconds - before.cpu_seconds) / amount,
        )


def looped(database: Database, amount: int, connections: int) -> Written:
    """Write the same rows in a bare loop."""
    database.settle()
    before = database.spent()
    with module("bare_loop", database.dsn, connections, amount) as process:
        told = process.told()
        spent = database.spent()
    return Written(
        amount / told["seconds"],
        1e6 * told["cpu_seconds"] / amount,
        1e6 * (spent.cpu_seconds - before.cpu_seconds) / amount,
    )


def check(database: Database, amount: int) -> None:
    """Make sure that what was measured is what was meant: each has written its row."""
    row = database.admin.execute("select count(*) from public.business").fetchone()
    assert row == (amount,), f"{row} instead of {amount} rows"
