"""Whether an open transaction that has enqueued holds up anybody else's enqueue."""

from __future__ import annotations

import random
import time
from statistics import median
from typing import TYPE_CHECKING, Final

import psycopg

from bench.engine import jobs
from bench.engine.measurement import Control, Measurement, Target
from hudhud.client import Client
from hudhud.domain.job import NewJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.engine.server import Connection, Database, Server
    from bench.engine.sizes import Size

STRETCHES: Final = 20
WARM: Final = 10  # psycopg prepares a statement after five
LOCK_TIMEOUT: Final = "2s"


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Time single enqueues alone and beside an open one, in turn and shuffled."""
    for bench, is_new, words in (
        ("beside_open_enqueue", False, "the same queue, lane and tenant"),
        ("beside_open_enqueue_new_tenant", True, "a tenant that was never seen"),
    ):
        with server.database() as database:
            alone, beside = compare(database, size.beside_samples, is_new=is_new)
        say(f"{words}: alone {median(alone):.3f} ms, beside {median(beside):.3f} ms")
        yield Measurement(
            bench,
            "ms",
            medians(beside),
            median(beside),
            against=Control("alone", medians(alone)),
            target=Target("ratio", "<=", 1.15),
            note=f"Median of an enqueue while a transaction is open that has enqueued for {words}.",
            detail={"enqueues": len(beside), "max_ms": round(max(beside), 2)},
        )


def medians(samples: list[float]) -> list[float]:
    """Return the medians of stretches of the samples: a burst of other load spoils one of them."""
    step = max(1, len(samples) // STRETCHES)
    return [median(samples[low : low + step]) for low in range(0, len(samples) - step + 1, step)]


def compare(database: Database, amount: int, *, is_new: bool) -> tuple[list[float], list[float]]:
    """Return the milliseconds of enqueues alone and of those beside an open transaction.

    Before each, another transaction enqueues; it is rolled back before the one that is alone, and
    after the one that is beside it. So both follow the same work.
    """
    alone: list[float] = []
    beside: list[float] = []
    with database.connect() as connection, psycopg.connect(database.dsn) as other:
        jobs.announce(connection)
        connection.execute(f"set lock_timeout = '{LOCK_TIMEOUT}'".encode())
        for number in range(-WARM, amount):
            sides = [(False, alone), (True, beside)]
            random.Random(number).shuffle(sides)  # noqa: S311 - an order, not a secret
            for is_beside, found in sides:
                tenant = f"tenant-{number}-{is_beside}" if is_new else "default"
                enqueue(other, tenant)
                if not is_beside:
                    other.rollback()
                took = enqueue(connection, tenant)
                if number >= 0:
                    found.append(took)
                other.rollback()
    return alone, beside


def enqueue(connection: Connection, tenant: str) -> float:
    """Return the milliseconds that an enqueue took."""
    new_job = NewJob(jobs.TYPE, jobs.payload(0), tenant_id=tenant)
    began = time.monotonic()
    Client().enqueue(connection, new_job)
    return 1e3 * (time.monotonic() - began)
