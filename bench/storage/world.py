"""One fresh schema with its load, an old snapshot beside it if asked, and what a body spent."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from storage.server import DSN, NOTHING, Connection, Spent, connect

if TYPE_CHECKING:
    from collections.abc import Generator

    from storage.layouts import Layout

BULK = 1_000
WHOLE_TIME_DAYS = 400
QUEUE, LANE, TENANT, TYPE = "default", 2, "tenant-0", "mail.send"
AGED = """
with written as (
  insert into probe.job (id, lane, type, queue, tenant_id, payload)
  select encode(substr(uuid_send(probe.id_floor(now() - interval '1 day' * (g % %(days)s))), 1, 6)
                || substr(uuid_send(probe.uuidv7(0)), 7), 'hex')::uuid,
         %(lane)s::smallint, %(type)s, %(queue)s, %(tenant)s, %(payload)s::jsonb
  from generate_series(1, %(jobs)s) g returning id, lane, queue, tenant_id)
insert into probe.ready (job_id, lane, queue, tenant_id)
  select id, lane, queue, tenant_id from written""".replace(" % ", " %% ")


@dataclass(slots=True)
class World:
    """What a measured body sees, and what the load cost."""

    connection: Connection
    jobs: int
    load_seconds: float = 0.0
    load: Spent = NOTHING
    before: Spent = NOTHING

    def account(self) -> dict[str, float]:
        """Server CPU (ms per 1,000 jobs) and WAL (bytes per job): of the load, and since it."""
        time.sleep(0.05)
        body = Spent.now(self.connection) - self.before
        return {
            "bulk_rate": self.jobs / self.load_seconds,
            "bulk_server_ms_1k": self.load.cpu_seconds * 1e6 / self.jobs,
            "bulk_wal": self.load.wal_bytes / self.jobs,
            "server_ms_1k": body.cpu_seconds * 1e6 / self.jobs,
            "wal": body.wal_bytes / self.jobs,
        }


def payload(number: int) -> dict[str, object]:
    """About 100 bytes of JSON, the same as the peers' jobs carry."""
    return {"i": number, "user": f"user-{number}", "template": "welcome", "pad": "x" * 40}


def install(connection: Connection, layout: Layout) -> None:
    """Make the schema and its daily partitions, the middle one being today's."""
    connection.execute("set client_min_messages = warning")
    connection.execute(layout.sql().encode())
    middle = layout.partitions // 2
    days = [(number - middle, number - middle + 1) for number in range(layout.partitions)]
    if layout.partitions == 1:
        days = [(-WHOLE_TIME_DAYS, WHOLE_TIME_DAYS)]
    for table in layout.partitioned():
        options = layout.job_options() if table == "job" else ""
        for number, (low, high) in enumerate(days):
            connection.execute(
                "select probe.make_day(%s, %s, %s, %s, %s)", (table, number, low, high, options)
            )


def fill(connection: Connection, jobs: int) -> None:
    """Enqueue jobs in bulk, through the layout's own function."""
    documents = [json.dumps(payload(number)) for number in range(BULK)]
    for _ in range(0, jobs, BULK):
        connection.execute(
            "select cardinality(probe.enqueue_many(%s, %s::smallint, %s, %s, %s::jsonb[]))",
            (QUEUE, LANE, TENANT, TYPE, documents),
        )


def fill_aged(connection: Connection, jobs: int, days: int) -> None:
    """Write the ledger's rows with ids of many past days, as retries and long delays have."""
    values = {
        "days": days,
        "lane": LANE,
        "type": TYPE,
        "queue": QUEUE,
        "tenant": TENANT,
        "payload": json.dumps(payload(1)),
        "jobs": jobs,
    }
    connection.execute(AGED, values)


@contextmanager
def old_snapshot() -> Generator[None]:
    """Hold a REPEATABLE READ snapshot open."""
    with psycopg.connect(DSN) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("select 1")
        yield


@contextmanager
def world(layout: Layout, jobs: int, *, snapshot: bool = False, days: int = 0) -> Generator[World]:
    """Make a fresh world: schema, snapshot, load, statistics, checkpoint; then the body counts."""
    with connect() as connection:
        install(connection, layout)
        connection.execute("checkpoint")
        with old_snapshot() if snapshot else nullcontext():
            here = World(connection, jobs)
            start, before = time.perf_counter(), Spent.now(connection)
            if days:
                fill_aged(connection, jobs, days)
            else:
                fill(connection, jobs)
            here.load_seconds = time.perf_counter() - start
            here.load = Spent.now(connection) - before
            connection.execute("analyze")
            connection.execute("checkpoint")
            here.before = Spent.now(connection)
            yield here
