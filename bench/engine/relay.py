"""How fast a relay makes jobs of events that were published before."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

from bench.engine import jobs
from bench.engine.listening import TYPE, announce, announce_strangers
from bench.engine.measurement import Control, Target, middle
from bench.engine.process import worker
from bench.engine.routing import QUEUE, SUBSCRIPTION, app
from bench.engine.server import sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.engine.measurement import Measurement
    from bench.engine.process import Process
    from bench.engine.server import Connection, Database, Server
    from bench.engine.sizes import Size

SUBSCRIPTIONS: Final = (1, 5)
TARGET: Final = 20_000
GOAL: Final = 40_000
CONCURRENCY: Final = 1
WAIT_SECONDS_MAX: Final = 300
POLL_SECONDS: Final = 0.01


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Route a backlog of events, and write the same jobs raw."""
    amount = size.relay_events
    for subscriptions in SUBSCRIPTIONS:
        ours: list[float] = []
        raws: list[float] = []
        for number in range(size.rounds):
            sides = [(routed, ours), (written, raws)]
            random.Random(number).shuffle(sides)  # noqa: S311 - an order, not a secret
            for side, found in sides:
                with server.database() as database:
                    load(database, amount, strangers=subscriptions - 1)
                    found.append(side(database, amount))
                    check(database, amount)
                words = f"{subscriptions} subscribed, {side.__name__}: {found[-1]:,.0f}/s"
                say(f"round {number + 1} of {size.rounds}: {words}")
        noun = "subscription" if subscriptions == 1 else "subscriptions, one of which wants them"
        yield middle(
            f"relay_{subscriptions}",
            "events/s",
            ours,
            against=Control("raw INSERT ... SELECT", raws),
            target=Target("value", ">=", TARGET) if subscriptions == 1 else None,
            goal=Target("value", ">=", GOAL) if subscriptions == 1 else None,
            note=f"One relay, {amount:,} events published before, {subscriptions} {noun}; raw"
            " writes the same jobs, 1,000 a commit.",
        )


def load(database: Database, amount: int, *, strangers: int) -> None:
    """Subscribe, then publish."""
    (own,) = app.outbox.announced_subscriptions()
    with database.connect() as connection:
        announce(connection, app)
        announce_strangers(connection, {**own}, strangers)
        for low in range(1, amount + 1, jobs.BULK):
            publish(connection, low, min(amount, low + jobs.BULK - 1))
    database.settle()


def publish(connection: Connection, low: int, high: int) -> None:
    """Publish events in one transaction, by a statement that costs next to nothing here."""
    connection.execute(sql("publish_load").encode(), {"type": TYPE, "low": low, "high": high})


def routed(database: Database, amount: int) -> float:
    """Return how many events a second a worker's relay routes, from its start to the last."""
    with worker(
        database.dsn, concurrency=CONCURRENCY, application="routing", queues="none"
    ) as process:
        steps = watch(process, amount)
    return amount / (steps[amount] - steps[0])


def watch(process: Process, amount: int) -> dict[int, float]:
    """Wait until a relay has routed so many; return when it had routed how many.

    Raises:
        RuntimeError: It takes too long.
    """
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while amount not in (steps := process.board.starts()):
        if time.monotonic() > deadline:
            message = f"only {max(steps, default=0)} of {amount} events were routed"
            raise RuntimeError(message)
        time.sleep(POLL_SECONDS)
    return steps


def written(database: Database, amount: int) -> float:
    """Return how many of the same jobs a second raw statements write."""
    statement = sql("route_raw").encode()
    with database.connect() as connection:
        row = connection.execute("select min(position) from hudhud.event").fetchone()
        assert row is not None
        began = time.monotonic()
        for low in range(row[0], row[0] + amount, jobs.BULK):
            connection.execute(statement, {"low": low, "high": low + jobs.BULK - 1})
        return amount / (time.monotonic() - began)


def check(database: Database, amount: int) -> None:
    """Make sure that what was measured is what was meant: one job for each event."""
    row = database.admin.execute(
        "select count(distinct payload #>> '{event,id}'), count(*) from hudhud.job"
        " where type = %s and queue = %s",
        (SUBSCRIPTION, QUEUE),
    ).fetchone()
    assert row == (amount, amount), f"{row} instead of {amount} jobs"
