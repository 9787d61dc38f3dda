"""What an enqueue adds to a business transaction, with one client and with eight at once."""

from __future__ import annotations

import multiprocessing
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psycopg

from bench.engine import jobs, raw
from bench.engine.measurement import Control, Target, middle
from hudhud.client import Client
from hudhud.domain.job import NewJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.queues import SimpleQueue
    from multiprocessing.synchronize import Barrier

    from bench.engine.measurement import Measurement
    from bench.engine.server import Connection, Server
    from bench.engine.sizes import Size

ROUND_SECONDS: Final = 0.25
JOIN_SECONDS: Final = 60
_BUSINESS: Final = b"insert into public.business (note) values (%s)"
_MAKE_BUSINESS: Final = """
create table public.business (
    id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    note text not null)"""
# What a queue is while a worker polls it hard: enqueues spare their hint then.
_BUSY: Final = """
insert into hudhud.queue as q (name, busy_until) values ('default', 'infinity')
on conflict (name) do update set busy_until = excluded.busy_until"""


@dataclass(frozen=True, slots=True)
class Variant:
    """One kind of enqueue.

    Attributes:
        name: Added to the bench's name.
        is_keyed: Each job has an idempotency key.
        is_notifying: Each enqueue notifies; else the queue counts as busy.
    """

    name: str
    is_keyed: bool
    is_notifying: bool
    target: float | None
    goal: float
    note: str


VARIANTS: Final = (
    Variant("", False, False, 0.9, 1.0, "Queue busy, so no NOTIFY."),  # noqa: FBT003 - a table
    Variant("_key", True, False, None, 0.8, "Each with an idempotency key."),  # noqa: FBT003
    Variant("_notify", False, True, None, 0.45, "Each with its NOTIFY; raw has none."),  # noqa: FBT003
)


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """BEGIN, business insert, enqueue, COMMIT against the same with raw inserts."""
    for variant in VARIANTS:
        for clients in size.clients:
            bench = f"transaction{variant.name}_{clients}"
            with server.database() as database:
                with database.connect() as connection:
                    jobs.announce(connection)
                    jobs.meet(connection)
                    connection.execute(_MAKE_BUSINESS.encode())
                    if not variant.is_notifying:
                        connection.execute(_BUSY.encode())
                database.settle()
                ours, raws = compare(
                    database.dsn, variant, clients=clients, rounds=size.client_rounds
                )
            noun = "client" if clients == 1 else "clients"
            measured = middle(
                bench,
                "transactions/s",
                ours,
                against=Control("raw inserts", raws),
                target=Target("ratio", ">=", variant.target) if variant.target else None,
                goal=Target("ratio", ">=", variant.goal),
                note=f"BEGIN, business insert, enqueue, COMMIT; {clients} {noun}. {variant.note}",
            )
            say(f"{bench}: {measured.value:,.0f}/s, {measured.ratio:.2f} of raw")
            yield measured


def compare(
    dsn: str, variant: Variant, *, clients: int, rounds: int
) -> tuple[list[float], list[float]]:
    """Return the rates of our transactions and of the raw ones, one a round.

    The clients are processes, as the workers of a web server are; all do the same at the same
    time, for a moment, ours and raw in turn and shuffled.
    """
    sides = [False, True] * rounds
    for number in range(rounds):
        pair = sides[2 * number : 2 * number + 2]
        random.Random(number).shuffle(pair)  # noqa: S311 - an order, not a secret
        sides[2 * number : 2 * number + 2] = pair
    context = multiprocessing.get_context("spawn")
    barrier, counts = context.Barrier(clients), context.SimpleQueue()
    processes = [
        context.Process(target=produce, args=(dsn, variant, number), kwargs=shared)
        for number in range(clients)
        for shared in [{"sides": sides, "barrier": barrier, "counts": counts}]
    ]
    for process in processes:
        process.start()
    found = [counts.get() for _ in processes]
    for process in processes:
        process.join(JOIN_SECONDS)
    totals = [sum(rates) for rates in zip(*found, strict=True)]
    # The first pair warms connections, prepared statements and caches.
    pairs = list(zip(sides, totals, strict=True))[2:]
    return [rate for is_raw, rate in pairs if not is_raw], [
        rate for is_raw, rate in pairs if is_raw
    ]


def produce(
    dsn: str,
    variant: Variant,
    number: int,
    *,
    sides: Sequence[bool],
    barrier: Barrier,
    counts: SimpleQueue[list[float]],
) -> None:
    """Be one client: per side, as many transactions as there is time for."""
    rates: list[float] = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        for turn, is_raw in enumerate(sides):
            barrier.wait()
            done, began = 0, time.monotonic()
            while (passed := time.monotonic() - began) < ROUND_SECONDS:
                key = f"{number}-{turn}-{done}" if variant.is_keyed else None
                transact(connection, done, key, is_raw=is_raw)
                done += 1
            rates.append(done / passed)
    counts.put(rates)


def transact(connection: Connection, number: int, key: str | None, *, is_raw: bool) -> None:
    """Do one transaction."""
    payload = jobs.payload(number)
    with connection.transaction():
        connection.execute(_BUSINESS, ("a note of the business",))
        if is_raw:
            raw.enqueue(connection, jobs.TYPE, payload, key=key)
        else:
            Client().enqueue(connection, NewJob(jobs.TYPE, payload, idempotency_key=key))
