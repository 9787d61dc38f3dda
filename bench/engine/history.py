"""Whether millions of finished jobs in history slow a drain down."""

from __future__ import annotations

import random
from statistics import median
from typing import TYPE_CHECKING, Final

from bench.engine import jobs
from bench.engine.drain import CONCURRENCY
from bench.engine.measurement import Control, Target, middle
from bench.engine.process import worker
from bench.engine.server import sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.engine.measurement import Measurement
    from bench.engine.server import Database, Server
    from bench.engine.sizes import Size

STEP: Final = 100_000


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Drain beside a full history and beside none, in turn and shuffled."""
    with server.database("_full") as full, server.database() as empty:
        fill(full, size.history_jobs, say)
        rates: dict[str, list[float]] = {"full": [], "empty": []}
        for number in range(size.rounds):
            sides = [("full", full), ("empty", empty)]
            random.Random(number).shuffle(sides)  # noqa: S311 - an order, not a secret
            for name, database in sides:
                rates[name].append(drain(database, size.drain_jobs))
            ratio = rates["full"][-1] / rates["empty"][-1]
            say(f"round {number + 1} of {size.rounds}: {ratio:.2f} of the rate without history")
    yield middle(
        "history",
        "jobs/s",
        rates["full"],
        against=Control("no history", rates["empty"]),
        target=Target("ratio", ">=", 0.9),
        goal=Target("ratio", ">=", 0.95),
        note=f"{size.history_jobs:,} finished jobs on {server.past_days - 1} past days"
        f" ({server.past_days + 15} daily partitions).",
        detail={"history_jobs": size.history_jobs, "rate_without": round(median(rates["empty"]))},
    )


def fill(database: Database, amount: int, say: Callable[[str], None]) -> None:
    """Make finished jobs on all past days."""
    days = range(2, database.past_days + 1)
    per_day = amount // len(days)
    statement = sql("history").encode()
    with database.connect() as connection:
        for made, days_back in enumerate(days, start=1):
            for first in range(0, per_day, STEP):
                step = min(STEP, per_day - first)
                place = {"days_back": days_back, "first": first, "amount": step}
                connection.execute(statement, place)
            if made % 11 == 0:
                say(f"history: {made * per_day:,} of {amount:,} jobs")
    database.admin.execute("vacuum analyze")


def drain(database: Database, amount: int) -> float:
    """Load and drain; return jobs per second. Both databases are as tidy before each round."""
    with database.connect() as connection:
        jobs.announce(connection)
        jobs.load(connection, amount)
    database.admin.execute("vacuum analyze hudhud.ready, hudhud.lease")
    database.admin.execute("checkpoint")
    with worker(database.dsn, concurrency=CONCURRENCY) as process:
        process.wait_for(amount)
        ended_at = database.wait_until_drained()
        return amount / (ended_at - process.board.first_at)
