-- Placeholder: days, for how many days back there are partitions.
-- The smallest honest worker's tables: the same ledger (job, ready, lease, outcome) with the same history and as many
-- daily partitions, and of everything else nothing: no lanes' registry, crash counts, contracts, settlements, schedules.
create schema control;
create table control.job (
    id         uuid        not null,
    type       text        not null,
    queue      text        not null,
    lane       smallint    not null,
    tenant_id  text        not null,
    payload    jsonb       not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (id)
) partition by range (id);
create sequence control.ready_seq cache 1;
create table control.ready (
    seq       bigint   not null default nextval('control.ready_seq'),
    job_id    uuid     not null,
    run       integer  not null default 1,
    attempt   smallint not null default 1,
    lane      smallint not null,
    queue     text     not null,
    tenant_id text     not null
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
create index ready_claim on control.ready (queue, lane, tenant_id, seq);
create table control.lease (
    id           uuid        primary key default gen_random_uuid(),
    worker       text        not null,
    locked_until timestamptz not null,
    job_ids      uuid[]      not null,
    runs         integer[]   not null,
    attempts     smallint[]  not null
);
alter table control.lease alter column job_ids set storage external;
create index lease_until on control.lease (locked_until);
create table control.outcome (
    job_id      uuid        not null,
    run         integer     not null,
    attempt     smallint    not null,
    outcome     text        not null,
    finished_at timestamptz not null,
    primary key (job_id, run)
) partition by range (job_id);

do $$
declare
    day date;
    parent text;
begin
    foreach parent in array array['job', 'outcome'] loop
        for day in select (now() at time zone 'UTC')::date + n from generate_series(-{days}, 14) n loop
            execute format('create table control.%I partition of control.%I for values from (%L) to (%L)',
                parent || '_' || to_char(day, 'YYYYMMDD'), parent,
                hudhud.first_id(day::timestamp at time zone 'UTC'), hudhud.first_id((day + 1)::timestamp at time zone 'UTC'));
        end loop;
    end loop;
end $$;

create function control.claim(
    mark bigint, amount integer,
    out lease_id uuid, out top bigint, out xid bigint, out xmin bigint, out types text[], out payloads text[])
returns setof record language plpgsql set enable_seqscan = off as $$
declare
    ids uuid[];
    all_runs integer[];
    all_attempts smallint[];
begin
    perform set_config('synchronous_commit', 'off', true);
    with picked as materialized (
        select r.ctid from control.ready r
        where r.queue = 'default' and r.lane = 2 and r.tenant_id = 'default' and r.seq > mark
        order by r.seq limit amount for update skip locked
    ), taken as (
        delete from control.ready r where r.ctid = any (array(select ctid from picked))
        returning r.seq, r.job_id, r.run, r.attempt
    )
    select array_agg(t.job_id), array_agg(t.run), array_agg(t.attempt), max(t.seq)
    into ids, all_runs, all_attempts, top
    from (select * from taken order by job_id) t;
    if ids is null then
        return;
    end if;
    insert into control.lease (worker, locked_until, job_ids, runs, attempts)
    values ('w', clock_timestamp() + interval '30 s', ids, all_runs, all_attempts) returning id into lease_id;
    xid := pg_current_xact_id()::text::bigint;
    xmin := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    execute format($q$
        select array_agg(j.type), array_agg(j.payload::text)
        from (select j.type, j.payload from unnest($1) with ordinality u(id, n) join control.job j on j.id = u.id
              where j.id between %L and %L order by u.n) j$q$, ids[1], ids[cardinality(ids)])
    into types, payloads using ids;
    return next;
end $$;

-- As the design was first measured: the end is fenced by the outcome's key, under the lease.
create function control.finish_lean(lease_id uuid) returns bigint language plpgsql as $$
declare
    ended bigint;
begin
    with held as materialized (select * from control.lease l where l.id = lease_id for key share),
    written as (
        insert into control.outcome (job_id, run, attempt, outcome, finished_at)
        select u.job_id, u.run, u.attempt, 'succeed', clock_timestamp()
        from held h, unnest(h.job_ids, h.runs, h.attempts) u(job_id, run, attempt)
        on conflict do nothing returning 1
    ), gone as (
        delete from control.lease l using held h where l.id = h.id
    )
    select count(*) into ended from written;
    return ended;
end $$;

-- The fastest that we know: whoever deletes the lease may write its ends, and a lease always ends as a whole.
create function control.finish_bare(lease_id uuid) returns bigint language plpgsql as $$
declare
    ended bigint;
begin
    with gone as (
        delete from control.lease l where l.id = lease_id returning l.*
    ), written as (
        insert into control.outcome (job_id, run, attempt, outcome, finished_at)
        select u.job_id, u.run, u.attempt, 'succeed', clock_timestamp()
        from gone g, unnest(g.job_ids, g.runs, g.attempts) u(job_id, run, attempt)
        returning 1
    )
    select count(*) into ended from written;
    return ended;
end $$;
