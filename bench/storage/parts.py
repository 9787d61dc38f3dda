"""Parts timed by themselves: ids, the claim's payload read (both in the server), a batch's way in.

The last is the client's CPU for one row of arrays, as a claim returns it, through each driver.
"""

from __future__ import annotations

import time
from itertools import product
from typing import TYPE_CHECKING, Any

import uvloop

from storage.drivers import DRIVERS
from storage.layouts import FOLDER, GENERIC, Layout
from storage.record import record, shuffled
from storage.server import Connection, connect
from storage.world import fill, fill_aged, install

if TYPE_CHECKING:
    import argparse

IDS = {
    "uuidv7()": "select count(uuidv7()) from generate_series(1, 1000)",
    "with the shard": "select count(probe.uuidv7(0)) from generate_series(1, 1000)",
    "one draw and a counter": "select cardinality(probe.uuidv7_many(1000, 0))",
}
READS = ("static", "static_bounds", "execute", "execute_join", "any")
TIMES = {1: 500, 20: 300, 500: 30}
ROW = """select gen_random_uuid(), 1::bigint, 2::bigint, ids, runs, runs, runs, runs, types, types,
  payloads, array_fill(null::text, array[n]) from probe.batch where n = $1::int"""
TODAY = "select array_agg(id) from (select id from probe.job order by id limit 500) j"
AGED = """select array_agg(id order by id) from (
  select id from probe.job where id < probe.id_floor(now() - interval '1 hour')
  order by random() limit 500) j"""


def one(connection: Connection, sql: str, *values: object) -> Any:  # noqa: ANN401 - a column's type
    """First column of a statement's first row."""
    row = connection.execute(sql.encode(), values).fetchone()
    assert row is not None
    return row[0]


def ids(connection: Connection, way: str) -> float:
    """Microseconds per id, in batches of 1,000."""
    began = time.perf_counter()
    for _ in range(50):
        one(connection, IDS[way])
    return (time.perf_counter() - began) * 1e6 / 50 / 1_000


def prepare(connection: Connection) -> dict[int, list[Any]]:
    """Make a function of each payload read; job ids of today (0) and of 28 days (28)."""
    connection.execute((FOLDER / "parts.sql").read_text().encode())
    for name in READS:
        body = (FOLDER / "read" / f"{name}.sql").read_text()
        connection.execute("select probe.make_read(%s, %s, %s)", (name, GENERIC, body))
    fill(connection, 60_000)
    found = {0: one(connection, TODAY)}
    fill_aged(connection, 28_000, 28)
    found[28] = one(connection, AGED)
    connection.execute("analyze")
    return found


async def client_cpu(driver: str, batch: int) -> float:
    """Client's CPU, in microseconds, for one batch's row."""
    session = await DRIVERS[driver]()
    await session.fetch(ROW, batch)
    began = time.process_time()
    for _ in range(TIMES[batch]):
        await session.fetch(ROW, batch)
    spent = time.process_time() - began
    await session.close()
    return spent * 1e6 / TIMES[batch]


def run(options: argparse.Namespace) -> None:
    """Time every part, shuffled."""
    with connect() as connection:
        install(connection, Layout("ledger"))
        of = prepare(connection)
        cases: list[tuple[str, str, int, int]] = [
            *(("ids", way, 1_000, 0) for way in IDS),
            *(("read", *case) for case in product(READS, TIMES, (0, 28))),
            *(("row to the client", driver, batch, 0) for driver, batch in product(DRIVERS, TIMES)),
        ]
        for repetition, (part, way, batch, days) in shuffled(cases, options.repetitions):
            if part == "ids":
                microseconds = ids(connection, way)
            elif part == "read":
                some = of[days][:batch]
                sql = "select probe.timed(%s, %s::uuid[], %s)"
                microseconds = one(connection, sql, way, some, TIMES[batch])
            else:
                microseconds = uvloop.run(client_cpu(way, batch))
            record(
                test="part",
                tag=options.tag,
                part=part,
                name=way,
                batch=batch,
                days=days,
                repetition=repetition,
                microseconds=microseconds,
            )
