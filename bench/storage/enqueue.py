"""Enqueue one job per commit, by the layout's function and by plain statements."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import product
from typing import TYPE_CHECKING

import asyncpg
import uvloop

from storage.layouts import Layout
from storage.record import record, shuffled
from storage.server import DSN, Spent, connect
from storage.world import LANE, QUEUE, TENANT, TYPE, install, payload

if TYPE_CHECKING:
    import argparse

# ruff: noqa: S608 - the words put in are the constants of world.py
SECONDS = 3.0
PLACE = f"{LANE}, '{QUEUE}', '{TENANT}'"
FUNCTION = f"select probe.enqueue('{QUEUE}', {LANE}::smallint, '{TENANT}', '{TYPE}', $1::jsonb)"
PLAIN_JOB = f"""insert into probe.job (id, lane, queue, tenant_id, type, payload)
  values (uuidv7(), {PLACE}, '{TYPE}', $1::jsonb) returning id"""
PLAIN_READY = f"""with written as ({PLAIN_JOB})
  insert into probe.ready (job_id, lane, queue, tenant_id) select id, {PLACE} from written"""
WAYS = {
    "ledger": ("ledger", FUNCTION),
    "ledger, plain statement": ("ledger", PLAIN_READY),
    "in place": ("in_place", FUNCTION),
    "in place, plain statement": ("in_place", PLAIN_JOB),
    "running rows": ("running_rows", FUNCTION),
}


async def produce(sql: str, clients: int) -> int:
    """Enqueue on several connections for a fixed time; the number enqueued."""
    document = json.dumps(payload(1))

    async def one() -> int:
        connection = await asyncpg.connect(DSN)
        await connection.fetchval(sql, document)
        count, end = 0, time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            await connection.fetchval(sql, document)
            count += 1
        await connection.close()
        return count

    return sum(await asyncio.gather(*(one() for _ in range(clients))))


def run(options: argparse.Namespace) -> None:
    """Measure every way with 1 and 8 clients, 1 and 60 partitions, shuffled."""
    cases = list(product(WAYS, (1, 8), (1, 60)))
    for repetition, (way, clients, partitions) in shuffled(cases, options.repetitions):
        layout, sql = WAYS[way]
        with connect() as connection:
            install(connection, Layout(layout, partitions=partitions))
            connection.execute("checkpoint")
            before = Spent.now(connection)
            jobs = uvloop.run(produce(sql, clients))
            after = Spent.now(connection)
        record(
            test="enqueue",
            tag=options.tag,
            name=way,
            clients=clients,
            partitions=partitions,
            repetition=repetition,
            rate=jobs / SECONDS,
            server_ms_1k=(after.cpu_seconds - before.cpu_seconds) * 1e6 / jobs,
            wal=(after.wal_bytes - before.wal_bytes) / jobs,
        )
