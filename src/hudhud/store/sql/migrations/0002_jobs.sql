-- Jobs: one table per state, so that nothing is updated while work flows.
--   job        what was asked: wide, written once
--   ready      one narrow row per claimable job, deleted by the claim
--   scheduled  due later;  waiting  held back;  lease  one row per claimed batch
--   outcome    one row per ended run, whatever its end
-- A *_kept table takes what is still needed of a day whose partition is dropped.

create table hudhud.job_type (
    type         text     not null,
    version      smallint not null check (version > 0),
    queue        text     not null,
    lane         smallint not null check (lane between 0 and 3),
    max_attempts smallint not null check (max_attempts > 0),
    max_crashes  smallint not null check (max_crashes > 0),
    field_names  text[]   not null default '{}',
    -- Per field the JSON types it may have, as '|string|null|'.
    field_types  text[]   not null default '{}',
    field_needed boolean[] not null default '{}',
    is_open      boolean  not null default true,
    -- The same as one predicate, for the quick look of every enqueue; null for a contract without fields.
    guard        jsonpath,
    announced_at timestamptz not null,
    primary key (type, version)
);

create table hudhud.queue (
    name       text        primary key,
    is_strict  boolean     not null default false,
    -- Until then a worker polls hard enough that an enqueue need not notify.
    busy_until timestamptz not null default '-infinity'
) with (fillfactor = 50);

create table hudhud.worker (
    id         uuid        primary key,
    name       text        not null,
    host       text        not null,
    pid        integer     not null,
    queues     text[]      not null,
    contracts  text[]      not null default '{}',
    release    text        not null,
    started_at timestamptz not null,
    seen_at    timestamptz not null
) with (fillfactor = 50);

create table hudhud.job (
    id              uuid        not null,
    shard           smallint    not null,
    version         smallint    not null,
    lane            smallint    not null,
    max_attempts    smallint    not null,
    created_at      timestamptz not null,
    available_at    timestamptz,
    expires_at      timestamptz,
    tenant_id       text        not null,
    type            text        not null,
    queue           text        not null,
    payload         jsonb       not null,
    idempotency_key text,
    correlation_id  text,
    traceparent     text,
    tags            text[],
    root_id         uuid,
    replay_of       uuid,
    resubmit_of     uuid,
    primary key (id, shard)
) partition by range (id);

create table hudhud.job_kept (like hudhud.job including all);

create sequence hudhud.ready_seq cache 1;

create table hudhud.ready (
    seq       bigint   not null default nextval('hudhud.ready_seq'),
    job_id    uuid     not null,
    run       integer  not null,
    shard     smallint not null,
    -- -1 suspects of a crash that must be alone, 0 other suspects, 1 jobs that come back, 2 first runs.
    line      smallint not null,
    lane      smallint not null,
    -- Attempts and crashes so far; the claim counts the next attempt.
    attempt   smallint not null,
    crashes   smallint not null,
    queue     text     not null,
    tenant_id text     not null
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.2,
        autovacuum_analyze_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
create index ready_claim on hudhud.ready (shard, queue, line, lane, tenant_id, seq);
create index ready_job on hudhud.ready (job_id);

create table hudhud.scheduled (
    available_at timestamptz not null,
    job_id       uuid        not null,
    run          integer     not null,
    shard        smallint    not null,
    -- Of ready, for a job that comes back.
    line         smallint    not null default 1,
    lane         smallint    not null,
    attempt      smallint    not null,
    crashes      smallint    not null,
    queue        text        not null,
    tenant_id    text        not null,
    primary key (job_id, shard)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index scheduled_due on hudhud.scheduled (shard, available_at);

create table hudhud.waiting (
    job_id    uuid        not null,
    run       integer     not null,
    shard     smallint    not null,
    lane      smallint    not null,
    attempt   smallint    not null,
    crashes   smallint    not null,
    waits_for text        not null check (waits_for in ('hold', 'order_key', 'dependency')),
    -- For a hold: the 'type:version' that no worker can run.
    contract  text,
    since     timestamptz not null,
    queue     text        not null,
    tenant_id text        not null,
    primary key (job_id, shard)
);
create index waiting_contract on hudhud.waiting (contract) where waits_for = 'hold';

create table hudhud.lease (
    id           uuid        primary key,
    shard        smallint    not null,
    worker_id    uuid        not null,
    claimed_at   timestamptz not null,
    locked_until timestamptz not null,
    queue        text        not null,
    job_ids      uuid[]      not null,
    runs         integer[]   not null,
    attempts     smallint[]  not null,
    crashes      smallint[]  not null,
    is_suspect   boolean     not null default false
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, fillfactor = 70);
-- Trying to compress what is deleted within seconds costs more than it saves.
alter table hudhud.lease
    alter column job_ids set storage external, alter column runs set storage external,
    alter column attempts set storage external, alter column crashes set storage external;
create index lease_until on hudhud.lease (shard, locked_until);

create table hudhud.outcome (
    job_id      uuid        not null,
    run         integer     not null,
    shard       smallint    not null,
    attempt     smallint    not null,
    worker_id   uuid        not null,
    claimed_at  timestamptz not null,
    finished_at timestamptz not null,
    outcome     text        not null
        check (outcome in ('succeed', 'retry', 'snooze', 'fail', 'cancel', 'hand_back', 'lost')),
    code        text,
    class       text,
    error       text,
    fingerprint text,
    result      jsonb,
    primary key (job_id, run, shard)
) partition by range (job_id);
create index outcome_dead on hudhud.outcome (job_id) where outcome = 'fail';

create table hudhud.outcome_kept (like hudhud.outcome including all);
create index outcome_kept_end on hudhud.outcome_kept (outcome, finished_at);

-- Lines and progress that a handler writes about its run.
create table hudhud.log (
    job_id   uuid        not null,
    run      integer     not null,
    line     bigint      generated always as identity,
    at       timestamptz not null,
    level    text        not null check (level in ('debug', 'info', 'warning', 'error')),
    message  text        not null,
    progress real        check (progress between 0 and 1)
) partition by range (job_id);
create index log_line on hudhud.log (job_id, line);

create table hudhud.log_kept (
    job_id   uuid        not null,
    run      integer     not null,
    line     bigint      not null,
    at       timestamptz not null,
    level    text        not null check (level in ('debug', 'info', 'warning', 'error')),
    message  text        not null,
    progress real        check (progress between 0 and 1)
);
create index log_kept_line on hudhud.log_kept (job_id, line);

-- Which scan ranges exist. An enqueue only appends to range_new, so that no producer waits for another; a claimer folds.
create table hudhud.range (
    shard     smallint not null,
    queue     text     not null,
    lane      smallint not null,
    tenant_id text     not null,
    number    bigint   generated always as identity,
    primary key (shard, queue, lane, tenant_id)
);
-- Partial, though every number is positive, so that nobody who looks for one range is planned to walk all of a queue.
create index range_number on hudhud.range (shard, queue, number) where number > 0;
create table hudhud.range_new (
    shard     smallint not null,
    queue     text     not null,
    lane      smallint not null,
    tenant_id text     not null
);

create table hudhud.idempotency (
    tenant_id  text        not null,
    use        text        not null check (use in ('enqueue', 'http', 'inbox', 'effect')),
    type       text        not null,
    key        text        not null,
    shard      smallint    not null,
    job_id     uuid        not null,
    created_at timestamptz not null,
    expires_at timestamptz not null default 'infinity',
    primary key (tenant_id, use, type, key, shard)
) partition by hash (tenant_id, use, type, key, shard);
create index idempotency_job on hudhud.idempotency (job_id);
create index idempotency_expiry on hudhud.idempotency (expires_at) where expires_at < 'infinity';
do $$
begin
    for remainder in 0..7 loop
        execute format(
            'create table hudhud.idempotency_%s partition of hudhud.idempotency for values with (modulus 8, remainder %s)',
            remainder, remainder);
    end loop;
end $$;

create table hudhud.cancel_request (
    job_id       uuid        primary key,
    run          integer     not null,
    worker_id    uuid        not null,
    requested_at timestamptz not null,
    requested_by text        not null
);
create index cancel_request_worker on hudhud.cancel_request (worker_id);

-- What the jobs of one batch may share; how enqueue_many hands it on.
create type hudhud.job_options as (
    type           text,
    version        integer,
    tenant_id      text,
    queue          text,
    lane           text,
    on_conflict    text,
    available_at   timestamptz,
    expires_at     timestamptz,
    max_attempts   integer,
    correlation_id text,
    traceparent    text,
    tags           text[]
);

-- One scan range, as stage hands it on.
create type hudhud.spot as (shard smallint, queue text, lane smallint, tenant_id text);
