"""Hot verbs cost what they move, whatever the tables hold and whatever the planner has believed.

60 days of partitions, jobs of 28 days in one line, and plans that were cached when every table was
empty. Measured in blocks and in rows touched, never in time.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.verbs import WORKER, Verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.server import Server
    from tests.support.verbs import Row, Value

DAYS_BACK: Final = 28
DAYS_AHEAD: Final = 31
JOBS_A_DAY: Final = 700
BATCH: Final = 100
# An index of these sizes has two or three levels: some blocks for each row of each table touched.
BLOCKS_A_CALL: Final = 150
BLOCKS_A_JOB: Final = {
    "enqueue many": 30,
    "claim": 15,
    "claim a survivor": 15,
    "finish": 8,
    "finish by retries": 60,
    "rescue": 80,
    "stage": 20,
    "prune what ran out": 15,
}

# Tables that grow with the work. The others have a row per worker, lease, queue or request.
LARGE: Final = ("job", "ready", "scheduled", "outcome", "idempotency", "range", "log", "effect")

_DAYS: Final = """
do $$
declare
    today date := (clock_timestamp() at time zone 'UTC')::date;
    day date;
    parent text;
    child text;
begin
    for day in select today + n from generate_series(-%s, %s) n loop
        foreach parent in array array['job', 'outcome', 'log'] loop
            child := parent || '_' || to_char(day, 'YYYYMMDD');
            continue when to_regclass('hudhud.' || child) is not null;
            execute format(
                'create table hudhud.%%I partition of hudhud.%%I for values from (%%L) to (%%L)',
                child, parent,
                hudhud.first_id(day::timestamp at time zone 'UTC'),
                hudhud.first_id((day + 1)::timestamp at time zone 'UTC'));
        end loop;
    end loop;
end $$
"""
# What was cached on empty tables is to be used on full ones: nobody may tell the planner better.
_NO_ANALYZE: Final = """
do $$
declare
    of_table regclass;
begin
    for of_table in
        select oid from pg_class where relnamespace = 'hudhud'::regnamespace and relkind = 'r'
    loop
        execute format('alter table %s set (autovacuum_enabled = false)', of_table);
    end loop;
end $$
"""
_FILL: Final = """
create temp table new as
-- The first id of an instant, with version, variant and a count put into it.
select overlay(overlay(overlay(hudhud.first_id(i.at)::text placing '7' from 15 for 1)
           placing '8' from 20 for 1) placing lpad(to_hex(n), 8, '0') from 25 for 8)::uuid as id, n
from generate_series(0, %s) d, generate_series(1, %s) n, lateral (
    select clock_timestamp() - make_interval(days => d, secs => n::float / 10)) i(at);

insert into hudhud.job (
    id, shard, version, lane, max_attempts, created_at, tenant_id, type, queue, payload,
    idempotency_key)
select id, 0, 1, 2, 20, hudhud.id_time(id), case n %% 7 when 6 then 'late' else 'acme' end,
       'mail', 'default', '{"a": 1}', 'k' || id
from new order by id;

insert into hudhud.idempotency (tenant_id, use, type, key, shard, job_id, created_at)
select tenant_id, 'enqueue', type, idempotency_key, 0, id, created_at from hudhud.job;

insert into hudhud.effect (
    id, tenant_id, key, shard, name, provider, reconcile, fingerprint, root_id, job_id, run, state,
    sends, token, send_before, reconcile_after, created_at, updated_at)
select id, tenant_id, id || ':pay', 0, 'pay', 'bank', 'none', 'f', id, id, 1, 'done', 1, id,
       created_at, created_at, created_at, created_at
from hudhud.job;

-- Five in seven have ended, after a retry each; one is ready, mixed over the days; one scheduled.
insert into hudhud.outcome (
    job_id, run, shard, attempt, worker_id, claimed_at, finished_at, outcome)
select id, run, 0, run, gen_random_uuid(), clock_timestamp(), clock_timestamp(),
       case run when 1 then 'retry' else 'succeed' end
from new, generate_series(1, 2) run where n %% 7 < 5;
insert into hudhud.ready (job_id, run, shard, line, lane, attempt, crashes, queue, tenant_id)
select id, 1, 0, 2, 2, 0, 0, 'default', 'acme' from new where n %% 7 = 5 order by md5(id::text);
insert into hudhud.scheduled (
    available_at, job_id, run, shard, lane, attempt, crashes, queue, tenant_id)
select clock_timestamp() + make_interval(days => 1, secs => n), id, 1, 0, 2, 0, 0, 'default',
       'late'
from new where n %% 7 = 6;
insert into hudhud.range (shard, queue, lane, tenant_id)
select 0, 'default', 2, t
from unnest(array['acme', 'late'] || array(select 't' || n from generate_series(1, 2000) n)) t;
"""


@pytest.fixture(scope="module")
def sessions(server: Server) -> Iterator[tuple[Verbs, Verbs]]:
    """Give a session with plans made on empty tables, and one with plans made on full ones."""
    dsn = server.create(f"plans_{uuid.uuid4().hex}")
    with (
        psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as early,
        psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as late,
    ):
        early.execute((_DAYS % (DAYS_BACK + 1, DAYS_AHEAD)).encode())
        early.execute(_NO_ANALYZE.encode())
        cache_plans(Verbs(early))
        late.execute((_FILL % (DAYS_BACK, JOBS_A_DAY)).encode())
        cache_plans(Verbs(late))
        yield Verbs(early), Verbs(late)
    server.drop(dsn.split("?")[0].rsplit("/", 1)[-1])


def cache_plans(db: Verbs) -> None:
    """Use each verb until plpgsql keeps a generic plan; making one costs more blocks."""
    with db.connection.transaction(force_rollback=True):
        for _ in range(7):
            for verb in VERBS.values():
                with db.connection.transaction(force_rollback=True):
                    prepare, call = verb
                    prepared = prepare(db)
                    call(db, prepared)


Verb = tuple["Callable[[Verbs], Row]", "Callable[[Verbs, Row], object]"]


def nothing(_: Verbs) -> None:
    """Prepare nothing."""


def claimed(db: Verbs) -> Row:
    db.call("enqueue_many", types=["mail"], payloads=[{}] * BATCH, tenant_ids=["fresh"])
    return db.claim(BATCH, lanes=[2], tenants=["fresh"])


def retries(db: Verbs) -> Row:
    claim = claimed(db)
    ends = [
        {"lease": str(claim.lease_id), "position": n, "outcome": "retry", "delay_seconds": n % 2}
        for n in range(1, BATCH + 1)
    ]
    return {"leases": [claim.lease_id], "closes": [True], "settlements": ends}


def whole(db: Verbs) -> Row:
    return {"leases": [], "closes": [], "whole": [claimed(db).lease_id]}


def lost(db: Verbs) -> None:
    claimed(db)
    db.connection.execute("update hudhud.lease set locked_until = '-infinity'")


def due(db: Verbs) -> None:
    db.call(
        "enqueue_many",
        types=["mail"],
        payloads=[{}] * BATCH,
        delays=[timedelta(hours=1)],
        tenant_ids=["fresh"],
    )
    db.connection.execute(
        "update hudhud.scheduled set available_at = '-infinity' where tenant_id = 'fresh'"
    )


def fresh(db: Verbs) -> Value:
    return db.enqueue(tenant_id="fresh")


def survivor(db: Verbs) -> None:
    """Let one job that is ready have lost its day."""
    db.connection.execute(
        """
        with gone as (
            delete from hudhud.job
            where id = (select job_id from hudhud.ready order by seq limit 1)
            returning *)
        insert into hudhud.job_kept select * from gone
        """
    )


def intended(db: Verbs) -> Value:
    return db.answer("intend", **intention(claimed(db))).effect_id


def intention(claim: Row) -> dict[str, Value]:
    return {
        "lease_id": claim.lease_id,
        "place": 1,
        "tenant_id": "fresh",
        "key": "new",
        "name": "pay",
        "provider": "bank",
        "reconcile": "none",
        "fingerprint": "f",
        "root_id": claim.job_ids[0],
        "send_seconds": 10.0,
        "settle_seconds": 10.0,
        "token": uuid.uuid4(),
    }


def answered(db: Verbs) -> None:
    db.call("keep_answer", **REQUEST, answer=Jsonb({"status": 202}))


def over(db: Verbs) -> None:
    """Let a batch of answers, and as much of an inbox, have run out."""
    db.connection.execute(
        """
        insert into hudhud.idempotency (
            tenant_id, use, type, key, shard, created_at, expires_at, fingerprint, answer)
        select 'acme', u.use, u.use, 'k' || n, 0, now(), '-infinity', u.fingerprint, u.answer
        from generate_series(1, %s) n,
             (values ('http', 'x'::bytea, '{}'::jsonb), ('inbox', null, null))
                 u(use, fingerprint, answer)
        """,
        [BATCH // 2],
    )


def running(db: Verbs) -> Value:
    return claimed(db).job_ids[0]


CLAIM: Final = {
    "worker_id": WORKER,
    "queue": "default",
    "lanes": [2],
    "tenants": ["acme"],
    "marks": [0],
    "quanta": [BATCH],
    "lease_seconds": 30,
}
REQUEST: Final = {"tenant_id": "acme", "key": "k1", "fingerprint": b"x"}
MANY: Final = {
    "types": ["mail"],
    "payloads": [{"a": 1}] * BATCH,
    "idempotency_keys": [f"new{n}" for n in range(BATCH)],
    "tenant_ids": ["acme"],
}
# Name → what it needs, and the function with its arguments.
CALLS: Final[dict[str, tuple[Callable[[Verbs], Row], str, Callable[[Row], dict[str, Value]]]]] = {
    "enqueue": (nothing, "enqueue", lambda _: {"type": "mail", "payload": {"a": 1}}),
    "enqueue a key": (
        nothing,
        "enqueue",
        lambda _: {"type": "mail", "payload": {}, "idempotency_key": "new"},
    ),
    "enqueue many": (nothing, "enqueue_many", lambda _: MANY),
    "claim": (nothing, "claim", lambda _: CLAIM),
    "claim a survivor": (survivor, "claim", lambda _: CLAIM),
    "finish": (whole, "finish", lambda given: given),
    "finish by retries": (retries, "finish", lambda given: given),
    "rescue": (lost, "rescue", lambda _: {}),
    "stage": (due, "stage", lambda _: {"max_jobs": 1_000}),
    "stage nothing": (nothing, "stage", lambda _: {"max_jobs": 1_000}),
    "cancel": (fresh, "cancel", lambda job_id: {"job_id": job_id, "actor": "ann"}),
    "cancel a running one": (running, "cancel", lambda job_id: {"job_id": job_id, "actor": "ann"}),
    "reschedule": (
        fresh,
        "reschedule",
        lambda job_id: {"job_id": job_id, "available_at": None, "actor": "ann"},
    ),
    "intend": (claimed, "intend", intention),
    "close an effect": (
        intended,
        "close_effect",
        lambda effect_id: {"effect_id": effect_id, "sends": 1, "state": "done"},
    ),
    "prune no effects": (nothing, "prune_effects", lambda _: {"max_rows": 1_000}),
    "take a request": (nothing, "take_request", lambda _: REQUEST),
    "take an answered request": (answered, "take_request", lambda _: REQUEST),
    "keep an answer": (
        nothing,
        "keep_answer",
        lambda _: {**REQUEST, "answer": {"status": 202}},
    ),
    "take in": (
        nothing,
        "take_in",
        lambda _: {"consumer": "billing", "event_id": uuid.UUID(int=7)},
    ),
    "prune what ran out": (over, "prune", lambda _: {"max_rows": 1_000}),
    "beat": (running, "beat", lambda _: {"worker_id": WORKER}),
    "prune nothing": (nothing, "prune", lambda _: {"max_rows": 1_000}),
    "ranges that are known": (nothing, "ranges", lambda _: {"queue": "default", "after": 10**9}),
}


def _verb(name: str) -> Verb:
    prepare, function, arguments = CALLS[name]

    def call(db: Verbs, prepared: Row) -> object:
        return db.call(function, **arguments(prepared))

    return prepare, call


VERBS: Final = {name: _verb(name) for name in CALLS}
EACH = pytest.mark.parametrize("name", CALLS)


def blocks(db: Verbs, name: str) -> int:
    """Return how many blocks a call touches, all its statements together."""
    prepare, function, arguments = CALLS[name]
    with db.connection.transaction(force_rollback=True):
        given = arguments(prepare(db))
        named = ", ".join(f"{key} => %({key})s" for key in given)
        explain = "explain (analyze, buffers, timing off, summary off, format json)"
        sent = {key: as_sent(value) for key, value in given.items()}
        statement = f"{explain} select * from hudhud.{function}({named})"  # noqa: S608
        (row,) = db.connection.execute(statement.encode(), sent).fetchall()
    top = row[0][0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


def as_sent(value: Value) -> Value:
    if isinstance(value, dict):
        return Jsonb(value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        is_settlements = "outcome" in value[0]
        return Jsonb(value) if is_settlements else [Jsonb(one) for one in value]
    return value


def blocks_max(name: str) -> int:
    return BLOCKS_A_CALL + BLOCKS_A_JOB.get(name, 0) * BATCH


@EACH
def test_a_plan_made_on_empty_tables_costs_what_it_moves(
    sessions: tuple[Verbs, Verbs], name: str
) -> None:
    early, _ = sessions
    blocks(early, name)  # what the session reads of the catalogue for the first time
    assert blocks(early, name) <= blocks_max(name)


@EACH
def test_a_plan_made_on_full_tables_costs_what_it_moves(
    sessions: tuple[Verbs, Verbs], name: str
) -> None:
    _, late = sessions
    blocks(late, name)
    assert blocks(late, name) <= blocks_max(name)


@EACH
def test_no_large_table_is_scanned_from_end_to_end(
    sessions: tuple[Verbs, Verbs], name: str
) -> None:
    early, _ = sessions
    prepare, call = VERBS[name]
    with early.connection.transaction(force_rollback=True):
        prepared = prepare(early)
        before = scans(early)
        call(early, prepared)
        after = scans(early)
    scanned = {
        table: after[table][0] - before.get(table, (0, 0))[0]
        for table in after
        if after[table][0] > before.get(table, (0, 0))[0] and after[table][1] > 0
    }
    assert scanned == {}


def scans(db: Verbs) -> dict[str, tuple[int, int]]:
    """Return per large table the sequential scans of this transaction and the rows they read."""
    rows = db.rows(
        "select relname, seq_scan, seq_tup_read from pg_stat_xact_user_tables"
        " where schemaname = 'hudhud'"
    )
    return {
        row.relname: (row.seq_scan, row.seq_tup_read)
        for row in rows
        if row.relname.split("_")[0] in LARGE and row.relname != "range_new"
    }


def test_a_batch_of_28_days_is_claimed_with_its_payloads(sessions: tuple[Verbs, Verbs]) -> None:
    early, _ = sessions
    with early.connection.transaction(force_rollback=True):
        claim = early.call("claim", **CLAIM)[0]
        days = early.value(
            "select count(distinct hudhud.id_time(id)::date) from unnest(%s::uuid[]) id",
            claim.job_ids,
        )
        assert days > 20
        assert claim.payloads == ['{"a": 1}'] * BATCH
        assert claim.types == ["mail"] * BATCH


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (
            """
            select ctid from hudhud.ready
            where shard = 0 and queue = 'default' and line = 2 and lane = 2
              and tenant_id = 'acme' and seq > 0
            order by seq limit 10
            """,
            "ready_claim",
        ),
        ("select from hudhud.ready where job_id = gen_random_uuid()", "ready_job"),
        (
            """
            select ctid from hudhud.scheduled where shard = 0 and available_at <= now()
            order by available_at limit 10
            """,
            "scheduled_due",
        ),
        (
            """
            select ctid from hudhud.lease where shard = 0 and locked_until <= now()
            order by locked_until limit 10
            """,
            "lease_until",
        ),
        (
            """
            select number from hudhud.range
            where shard = 0 and queue = 'default' and number > 5 and number > 0
            order by number limit 10
            """,
            "range_number",
        ),
        (
            """
            select from hudhud.range
            where shard = 0 and queue = 'default' and lane = 2 and tenant_id = 'acme'
            """,
            "range_pkey",
        ),
    ],
    ids=["claim", "by job", "stage", "rescue", "new ranges", "a known range"],
)
def test_a_hot_statement_walks_its_index_in_order(
    sessions: tuple[Verbs, Verbs], statement: str, index: str
) -> None:
    early, _ = sessions
    with early.connection.transaction(force_rollback=True):
        early.connection.execute("set local enable_seqscan = off")
        early.connection.execute("set local enable_bitmapscan = off")
        plan = "\n".join(early.values(f"explain (costs off) {statement}"))
    assert index in plan
    assert "Sort" not in plan
