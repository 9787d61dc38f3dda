-- Layout "running rows": as the ledger, but the claim writes one running row per job (with its own locked_until) in place of
-- one lease row per batch; the finish deletes it.
create table probe.job (
  id uuid not null, created_at timestamptz not null default clock_timestamp(), version int not null default 1,
  shard smallint not null default 0, lane smallint not null, max_attempts smallint not null default 10,
  type text not null, queue text not null, tenant_id text not null, payload jsonb not null,
  idempotency_key text, correlation_id text, traceparent text, tags text[],
  primary key (id)) partition by range (id);

create sequence probe.ready_seq cache 1;
create table probe.ready (
  seq bigint not null default nextval('probe.ready_seq'), job_id uuid not null, run int not null default 1,
  shard smallint not null default 0, lane smallint not null, attempt smallint not null default 1,
  crashes smallint not null default 0, back boolean not null default false,
  queue text not null, tenant_id text not null);
create index ready_claim on probe.ready (shard, queue, lane, tenant_id, back, seq);
create index ready_job on probe.ready (job_id);

create table probe.running (
  job_id uuid not null, worker_id uuid not null, locked_until timestamptz not null, run int not null,
  shard smallint not null default 0, attempt smallint not null, crashes smallint not null, primary key (job_id));

create table probe.outcome (
  job_id uuid not null, finished_at timestamptz not null default clock_timestamp(), run int not null,
  shard smallint not null default 0, attempt smallint not null, kind smallint not null, code text,
  primary key (job_id, run)) partition by range (job_id);

create function probe.enqueue(p_queue text, p_lane smallint, p_tenant text, p_type text, p_payload jsonb) returns uuid
language plpgsql as $$
declare i uuid := probe.uuidv7(0);
begin
  insert into probe.job (id, lane, type, queue, tenant_id, payload) values (i, p_lane, p_type, p_queue, p_tenant, p_payload);
  insert into probe.ready (job_id, lane, queue, tenant_id) values (i, p_lane, p_queue, p_tenant);
  return i;
end $$;

create function probe.enqueue_many(p_queue text, p_lane smallint, p_tenant text, p_type text, p_payloads jsonb[]) returns uuid[]
language plpgsql as $$
declare i uuid[] := probe.uuidv7_many(cardinality(p_payloads), 0);
begin
  insert into probe.job (id, lane, type, queue, tenant_id, payload)
    select u.id, p_lane, p_type, p_queue, p_tenant, u.payload from unnest(i, p_payloads) u(id, payload);
  insert into probe.ready (job_id, lane, queue, tenant_id) select u, p_lane, p_queue, p_tenant from unnest(i) u;
  return i;
end $$;

create function probe.claim(p_worker uuid, p_queue text, p_lane smallint, p_tenant text, p_mark bigint, p_n int)
returns table (top bigint, xid bigint, xmin bigint, job_ids uuid[], runs int[], attempts smallint[], types text[], payloads text[])
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
#variable_conflict use_variable
declare lo uuid; hi uuid;
begin
  with back as materialized (
    select y.ctid from probe.ready y where y.shard = 0 and y.queue = p_queue and y.lane = p_lane and y.tenant_id = p_tenant and y.back
    order by y.seq limit p_n for update skip locked),
  fresh as materialized (
    select y.ctid from probe.ready y where y.shard = 0 and y.queue = p_queue and y.lane = p_lane and y.tenant_id = p_tenant
      and not y.back and y.seq > p_mark
    order by y.seq limit p_n - (select count(*) from back) for update skip locked),
  taken as (
    delete from probe.ready y where y.ctid = any(array(select b.ctid from back b union all select f.ctid from fresh f))
    returning y.seq, y.back, y.job_id, y.run, y.attempt, y.crashes),
  started as (
    insert into probe.running (job_id, worker_id, locked_until, run, attempt, crashes)
      select t.job_id, p_worker, clock_timestamp() + interval '30 s', t.run, t.attempt, t.crashes from taken t)
  select array_agg(t.job_id), array_agg(t.run), array_agg(t.attempt), max(t.seq) filter (where not t.back),
         pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    into job_ids, runs, attempts, top, xmin
    from (select * from taken order by job_id) t;
  if job_ids is null then
    return;
  end if;
  xid := pg_current_xact_id()::text::bigint;
  {{read_jobs}}
  return next;
end $$;

create function probe.finish(p_ids uuid[], p_runs int[]) returns bigint language plpgsql as $$
declare n bigint;
begin
  {{finish}}
  return n;
end $$;
