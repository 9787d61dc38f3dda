"""Reads for people cost what they show: the same in a database of a hundred jobs or of many."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from hudhud.store.reads import Read

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = 30_000
SCAN = 100
BLOCKS_MAX = 4_000
"""Blocks that a read may touch that looks at a hundred jobs: some tens for each."""

FILL = """
select hudhud.enqueue_many(
    array[case when n %% 2 = 0 then 'mail' else 'pay' end],
    array(select jsonb_build_object('n', m) from generate_series(1, 500) m),
    tenant_ids => array['t' || n %% 5], queues => array['q' || n %% 3],
    delays => array[case when n %% 4 = 0 then interval '1 hour' else interval '0' end])
from generate_series(1, %(batches)s) n;
"""
END = """
with ended as (
    delete from hudhud.ready
    where job_id in (select job_id from hudhud.ready order by job_id limit %(jobs)s)
    returning job_id)
insert into hudhud.outcome
    (job_id, run, shard, attempt, worker_id, claimed_at, finished_at, outcome, code, fingerprint)
select job_id, 1, 0, 1, gen_random_uuid(), now(), now(),
       case when random() < 0.25 then 'fail' else 'succeed' end, 'c', 'f'
from ended
"""
PAGE = dict.fromkeys(("tenant_id", "status", "type", "queue", "tag", "after")) | {
    "rows_max": 20,
    "scan_max": SCAN,
}
DEAD = dict.fromkeys(("tenant_id", "type", "code", "fingerprint", "after")) | {
    "rows_max": 20,
    "scan_max": SCAN,
}
QUEUES = {"count_max": SCAN, "seen_seconds": 30}


@pytest.fixture(scope="module")
def full(server: Any) -> Iterator[psycopg.Connection[dict[str, Any]]]:  # noqa: ANN401
    """Give a database with 30,000 jobs: ready, scheduled, succeeded, dead."""
    name = f"plans_{uuid.uuid4().hex}"
    dsn = server.create(name)
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        connection.execute(FILL.encode(), {"batches": JOBS // 500})
        connection.execute(END.encode(), {"jobs": JOBS // 3})
    with psycopg.connect(server.admin(dsn), autocommit=True) as connection:
        connection.execute("vacuum analyze")
    with psycopg.connect(
        dsn, autocommit=True, prepare_threshold=None, row_factory=dict_row
    ) as connection:
        yield connection
    server.drop(name)


def rows(full: psycopg.Connection[dict[str, Any]], read: Read) -> list[dict[str, Any]]:
    return full.execute(read.sql(lambda _, name: f"%({name})s").encode(), read.named).fetchall()


def blocks(full: psycopg.Connection[dict[str, Any]], read: Read) -> int:
    text = read.sql(lambda _, name: f"%({name})s")
    explained = full.execute(
        f"explain (analyze, buffers, format json) {text}".encode(), read.named
    ).fetchone()
    assert explained is not None
    plan = explained["QUERY PLAN"][0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


@pytest.mark.parametrize(
    "read",
    [
        Read("job_page", PAGE),
        *(
            Read("job_page", {**PAGE, "status": status})
            for status in ("pending", "retryable", "running", "succeeded", "dead", "cancelled")
        ),
        Read("job_page", {**PAGE, "tenant_id": "t1"}),
        Read("job_page", {**PAGE, "tenant_id": "nobody"}),
        Read("job_page", {**PAGE, "tenant_id": "t1", "status": "dead", "type": "pay"}),
        Read("dead_page", DEAD),
        Read("dead_page", {**DEAD, "tenant_id": "nobody"}),
        Read("dead_groups", {"tenant_id": None, "rows_max": 20, "scan_max": SCAN}),
        Read("queue_overview", {**QUEUES, "tenant_id": None}),
        Read("queue_overview", {**QUEUES, "tenant_id": "t1"}),
        Read("metrics", {"seen_seconds": 30}),
        Read("doctor", {"seen_seconds": 30, "overdue_seconds": 30, "count_max": 1_000}),
    ],
    ids=lambda read: f"{read.name}-{'-'.join(str(v) for v in read.params.values() if v)}",
)
def test_a_read_touches_blocks_for_what_it_looks_at_and_no_more(
    full: psycopg.Connection[dict[str, Any]], read: Read
) -> None:
    assert blocks(full, read) < BLOCKS_MAX


def test_one_job_costs_a_few_look_ups(full: psycopg.Connection[dict[str, Any]]) -> None:
    (row,) = rows(full, Read("job_page", {**PAGE, "rows_max": 1}))
    assert blocks(full, Read("job_show", {"id": row["id"], "tenant_id": None})) < 200
    assert blocks(full, Read("finals", {"ids": [row["id"]]})) < 50


def test_an_event_costs_a_few_look_ups_whatever_was_made_since(
    full: psycopg.Connection[dict[str, Any]],
) -> None:
    """Found by an index, not by reading the jobs that came after it."""
    wanted = [{"name": f"paid:{n}", "event_type": "paid", "start": "beginning"} for n in range(3)]
    full.execute("select hudhud.announce_events('[]', %s)", [Jsonb(wanted)])
    made = full.execute(
        'select ids from hudhud.publish_many((select jsonb_agg(\'{"type": "paid", "payload": {}}\''
        "::jsonb) from generate_series(1, 1000)))"
    ).fetchone()
    assert made is not None
    for one in wanted:
        full.execute("select hudhud.relay(%s, 1000)", [one["name"]])
    full.execute(FILL.encode(), {"batches": 10})
    read = Read("event_show", {"id": made["ids"][500], "tenant_id": None})
    assert blocks(full, read) < 400
    assert len(rows(full, read)[0]["jobs"]) == 3


def test_pages_of_every_status_hold_exactly_its_jobs(
    full: psycopg.Connection[dict[str, Any]],
) -> None:
    for status in ("pending", "succeeded", "dead"):
        found: list[Any] = []
        page: dict[str, Any] = {**PAGE, "status": status, "rows_max": 1000, "scan_max": 4000}
        while got := rows(full, Read("job_page", page)):
            found += [row["id"] for row in got if row["id"] is not None]
            page["after"] = got[-1]["next"]
            if page["after"] is None:
                break
        expected = full.execute(
            "select id from hudhud.job_status where status = %s order by id desc", [status]
        ).fetchall()
        assert found == [row["id"] for row in expected]
