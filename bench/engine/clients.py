"""Clients at once, each a process: how many transactions they get done, ours and raw ones."""

from __future__ import annotations

import multiprocessing
import random
import time
from typing import TYPE_CHECKING, Final, Protocol

import psycopg

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.queues import SimpleQueue
    from multiprocessing.synchronize import Barrier

    from bench.engine.server import Connection

ROUND_SECONDS: Final = 0.25
JOIN_SECONDS: Final = 60


class Work(Protocol):
    """One transaction of a client. It is sent to the client's process: a function, or a partial."""

    def __call__(self, connection: Connection, number: int, key: str, *, is_raw: bool) -> None:
        """Do it.

        Args:
            connection: Of this client.
            number: Of the transaction within the round.
            key: No other transaction has it.
            is_raw: By bare statements, and not by functions of ours.
        """
        ...


def compare(dsn: str, work: Work, *, clients: int, rounds: int) -> tuple[list[float], list[float]]:
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
        context.Process(target=produce, args=(dsn, work, number), kwargs=shared)
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
    work: Work,
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
                work(connection, done, f"{number}-{turn}-{done}", is_raw=is_raw)
                done += 1
            rates.append(done / passed)
    counts.put(rates)
