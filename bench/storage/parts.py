"""Parts by themselves, in CPU: ids and the payload read (server), a batch's row (client)."""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
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
    "uuidv7()": "select count(uuidv7()) from generate_series(1, 100000)",
    "with the shard": "select count(probe.uuidv7(0)) from generate_series(1, 100000)",
    "one draw and a counter": "select cardinality(probe.uuidv7_many(100000, 0))",
}
READS = ("static", "static_bounds", "execute", "execute_join", "any")
TIMES = {1: 500, 20: 300, 500: 30}
AGAIN = "select probe.again(%s, %s::uuid[], %s)"
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


def server_cpu(connection: Connection, times: int, sql: str, *values: object) -> float:
    """CPU that the server's process spends on a statement, in microseconds for one of its times."""
    account = Path(f"/proc/{connection.info.backend_pid}/schedstat")
    one(connection, sql, *values)
    before = int(account.read_text().split()[0])
    one(connection, sql, *values)
    return (int(account.read_text().split()[0]) - before) / 1e3 / times


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
    """Measure every part, shuffled."""
    with connect() as connection:
        install(connection, Layout("ledger"))
        of = prepare(connection)
        cases: list[tuple[str, str, int, int]] = [
            *(("ids", way, 100_000, 0) for way in IDS),
            *(("read", *case) for case in product(READS, TIMES, (0, 28))),
            *(("row to the client", driver, batch, 0) for driver, batch in product(DRIVERS, TIMES)),
        ]
        for repetition, (part, way, batch, days) in shuffled(cases, options.repetitions):
            if part == "ids":
                microseconds = server_cpu(connection, batch, IDS[way])
            elif part == "read":
                values = (way, of[days][:batch], TIMES[batch])
                microseconds = server_cpu(connection, TIMES[batch], AGAIN, *values)
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
