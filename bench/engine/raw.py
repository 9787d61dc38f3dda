"""The raw baseline: the same rows into the same tables, one statement per table, no functions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_JOB: Final = """
insert into hudhud.job (
    id, shard, version, lane, max_attempts, created_at, tenant_id, type, queue, payload, idempotency_key)
values (uuidv7(), 0, 1, 2, 20, clock_timestamp(), %s, %s, %s, %s::jsonb, %s) returning id"""  # noqa: E501 - SQL
_KEY: Final = """
insert into hudhud.idempotency (tenant_id, use, type, key, shard, job_id, created_at)
values (%s, 'enqueue', %s, %s, 0, %s, clock_timestamp()) on conflict do nothing"""
_READY: Final = """
insert into hudhud.ready (job_id, run, shard, line, lane, attempt, crashes, queue, tenant_id)
values (%s, 1, 0, 2, 2, 0, 0, %s, %s)"""
_JOBS: Final = """
insert into hudhud.job (
    id, shard, version, lane, max_attempts, created_at, tenant_id, type, queue, payload)
select uuidv7(), 0, 1, 2, 20, clock_timestamp(), %s, %s, %s, payload
from unnest(%s::text[]::jsonb[]) payload returning id"""
_READIES: Final = """
insert into hudhud.ready (job_id, run, shard, line, lane, attempt, crashes, queue, tenant_id)
select id, 1, 0, 2, 2, 0, 0, %s, %s from unnest(%s::uuid[]) id"""

_AGGREGATE: Final = """
insert into hudhud.event_aggregate as a (tenant_id, aggregate_type, aggregate_id, shard, sequence)
values (%s, %s, %s, 0, 1)
on conflict on constraint event_aggregate_pkey do update set sequence = a.sequence + 1
returning a.sequence"""
_EVENT: Final = """
insert into hudhud.event (
    id, shard, version, epoch, position, xid, sequence, occurred_at, type, tenant_id,
    aggregate_type, aggregate_id, correlation_id, payload)
select id, 0, 1, 0, nextval('hudhud.event_position'), pg_current_xact_id(), %s, clock_timestamp(),
       %s, %s, %s, %s, id::text, %s::jsonb
from uuidv7() id
returning id"""

TENANT: Final = "default"
QUEUE: Final = "default"


def enqueue(
    connection: Connection, type_: str, payload: dict[str, object], *, key: str | None = None
) -> UUID:
    """Write the rows of one job in the caller's transaction; return its id."""
    text = json.dumps(payload)
    row = connection.execute(_JOB.encode(), (TENANT, type_, QUEUE, text, key)).fetchone()
    assert row is not None
    job_id: UUID = row[0]
    if key is not None:
        connection.execute(_KEY.encode(), (TENANT, type_, key, job_id))
    connection.execute(_READY.encode(), (job_id, QUEUE, TENANT))
    return job_id


def publish(
    connection: Connection,
    type_: str,
    payload: dict[str, object],
    *,
    aggregate: tuple[str, str] | None = None,
) -> UUID:
    """Write the rows of one event in the caller's transaction; return its id."""
    sequence: int | None = None
    if aggregate is not None:
        row = connection.execute(_AGGREGATE.encode(), (TENANT, *aggregate)).fetchone()
        assert row is not None
        sequence = row[0]
    about = aggregate or (None, None)
    row = connection.execute(
        _EVENT.encode(), (sequence, type_, TENANT, *about, json.dumps(payload))
    ).fetchone()
    assert row is not None
    event_id: UUID = row[0]
    return event_id


def enqueue_many(connection: Connection, type_: str, documents: Sequence[str]) -> list[UUID]:
    """Write the rows of many jobs in the caller's transaction; return their ids."""
    rows = connection.execute(_JOBS.encode(), (TENANT, type_, QUEUE, list(documents))).fetchall()
    ids = [row[0] for row in rows]
    connection.execute(_READIES.encode(), (QUEUE, TENANT, ids))
    return ids
