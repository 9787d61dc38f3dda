"""Bulk enqueue with ids returned, against raw INSERT … unnest into the same tables."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Final

from bench.engine import jobs, raw
from bench.engine.measurement import Control, Target, middle
from hudhud.client import Client
from hudhud.domain.job import NewJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.engine.measurement import Measurement
    from bench.engine.server import Connection, Server
    from bench.engine.sizes import Size

WARM_CALLS: Final = 6  # psycopg prepares a statement after five
UNKNOWN: Final = "unannounced"  # a type without a contract: its fields are not checked
_CALL: Final = b"""
select ids from hudhud.enqueue_many(types => array[%s], payloads => %s::text[]::jsonb[])"""


def client_call(connection: Connection, number: int) -> int:
    """Enqueue through the client: values in, ids out."""
    new_jobs = [NewJob(jobs.TYPE, jobs.payload(number + place)) for place in range(jobs.BULK)]
    return len(Client().enqueue_many(connection, new_jobs))


def client_raw(connection: Connection, number: int) -> int:
    """Do the same by hand."""
    documents = [json.dumps(jobs.payload(number + place)) for place in range(jobs.BULK)]
    with connection.transaction():
        return len(raw.enqueue_many(connection, jobs.TYPE, documents))


DOCUMENTS: Final = [json.dumps(jobs.payload(number)) for number in range(jobs.BULK)]


def sql_call(connection: Connection, _: int) -> int:
    """Enqueue by the SQL function, documents ready."""
    row = connection.execute(_CALL, (jobs.TYPE, DOCUMENTS)).fetchone()
    return len(row[0]) if row else 0


def sql_call_unchecked(connection: Connection, _: int) -> int:
    """Do the same for a type that nobody announced."""
    row = connection.execute(_CALL, (UNKNOWN, DOCUMENTS)).fetchone()
    return len(row[0]) if row else 0


def sql_raw(connection: Connection, _: int) -> int:
    """Do the same with raw statements, documents ready."""
    with connection.transaction():
        return len(raw.enqueue_many(connection, jobs.TYPE, DOCUMENTS))


ROWS: Final = (
    (
        "bulk_client",
        client_call,
        client_raw,
        Target("ratio", ">=", 0.8),
        Target("ratio", ">=", 1.0),
        "Through the client, from Python values to ids; payloads checked twice.",
    ),
    (
        "bulk_sql",
        sql_call,
        sql_raw,
        Target("ratio", ">=", 0.8),
        Target("ratio", ">=", 1.0),
        "The SQL function alone, documents ready, payloads checked.",
    ),
    (
        "bulk_sql_unchecked",
        sql_call_unchecked,
        sql_raw,
        None,
        Target("ratio", ">=", 0.9),
        "The SQL function alone, for a type without a contract.",
    ),
)


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Enqueue 1,000 jobs a call, ours and raw in turn and shuffled, each call committed."""
    for bench, ours, other, target, goal, note in ROWS:
        with server.database() as database, database.connect() as connection:
            jobs.announce(connection)
            rates = compare(connection, ours, other, calls=size.bulk_calls)
        measured = middle(
            bench,
            "jobs/s",
            rates[0],
            against=Control("raw INSERT ... unnest", rates[1]),
            target=target,
            goal=goal,
            note=f"{note} {jobs.BULK:,} jobs a call, ids returned.",
        )
        say(f"{bench}: {measured.value:,.0f} jobs/s, {measured.ratio:.2f} of raw")
        yield measured


def compare(
    connection: Connection,
    ours: Callable[[Connection, int], int],
    other: Callable[[Connection, int], int],
    *,
    calls: int,
) -> tuple[list[float], list[float]]:
    """Return the rates of calls of ours and of the other."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    for number in range(-WARM_CALLS, calls):
        sides = [True, False]
        random.Random(number).shuffle(sides)  # noqa: S311 - an order, not a secret
        for is_ours in sides:
            began = time.monotonic()
            made = (ours if is_ours else other)(connection, number * jobs.BULK)
            took = time.monotonic() - began
            assert made == jobs.BULK, f"{made} ids of {jobs.BULK}"
            if number >= 0:
                rates[is_ours].append(made / took)
    return rates[True], rates[False]
