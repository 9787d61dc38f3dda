-- The record of a run: what the database did, noted by itself in the transaction that did it.

create schema chaos;

-- What a producer wants done, written in the transaction that enqueues its job.
create table chaos.intent (number bigint primary key);

-- What a handler did, in ctx.transaction(). No unique constraint: doubling is to be seen.
create table chaos.effect (job_id uuid not null, run integer not null);

-- Leases as they come (taken) and go (gone), and outcomes (ended). seq: the order in which they were noted. verb: the
-- outermost function of hudhud that was at work.
create table chaos.entry (
    seq          bigint      generated always as identity,
    at           timestamptz not null default clock_timestamp(),
    xid          bigint      not null default pg_current_xact_id()::text::bigint,
    pid          integer     not null default pg_backend_pid(),
    what         text        not null check (what in ('taken', 'gone', 'ended')),
    verb         text        not null,
    lease_id     uuid,
    worker_id    uuid        not null,
    job_ids      uuid[]      not null,
    runs         integer[]   not null,
    outcome      text,
    code         text,
    locked_until timestamptz
);

create function chaos.verb(stack text) returns text language sql immutable
set search_path = pg_catalog, pg_temp as $$
    select coalesce((
        select found.match[1]
        from regexp_matches(stack, 'PL/pgSQL function hudhud\.(\w+)\(', 'g') with ordinality found(match, n)
        order by found.n desc limit 1), 'nobody')
$$;

create function chaos.note_lease() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    stack text;
begin
    get diagnostics stack = pg_context;
    if tg_op = 'INSERT' then
        insert into chaos.entry (what, verb, lease_id, worker_id, job_ids, runs, locked_until)
        values ('taken', chaos.verb(stack), new.id, new.worker_id, new.job_ids, new.runs, new.locked_until);
    else
        insert into chaos.entry (what, verb, lease_id, worker_id, job_ids, runs, locked_until)
        values ('gone', chaos.verb(stack), old.id, old.worker_id, old.job_ids, old.runs, old.locked_until);
    end if;
    return null;
end $$;

create function chaos.note_outcome() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    stack text;
begin
    get diagnostics stack = pg_context;
    insert into chaos.entry (what, verb, worker_id, job_ids, runs, outcome, code)
    values ('ended', chaos.verb(stack), new.worker_id, array[new.job_id], array[new.run], new.outcome, new.code);
    return null;
end $$;

create trigger chaos_note after insert or delete on hudhud.lease
for each row execute function chaos.note_lease();
create trigger chaos_note after insert on hudhud.outcome
for each row execute function chaos.note_outcome();
create trigger chaos_note after insert on hudhud.outcome_kept
for each row execute function chaos.note_outcome();

create function chaos.begin_to_cancel() returns integer language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    job_ids uuid[];
begin
    for turn in 1..1000 loop
        with picked as (select r.job_id from hudhud.ready r where r.line = 2 order by r.seq limit 3 for update skip locked)
        select array_agg(p.job_id) into job_ids from picked p;
        exit when job_ids is not null;
        perform pg_sleep(0.001);
    end loop;
    perform hudhud.cancel(job_id => id, actor => 'chaos') from unnest(job_ids) id;
    return coalesce(cardinality(job_ids), 0);
end $$;
