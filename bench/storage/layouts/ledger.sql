-- Layout "ledger": table per state, nothing updated. job is written once; a narrow ready row is deleted by the claim;
-- one lease row per claimed batch; one outcome row per ended run.
create table probe.job (
  id uuid not null, created_at timestamptz not null default clock_timestamp(), version int not null default 1,
  shard smallint not null default 0, lane smallint not null, max_attempts smallint not null default 10,
  type text not null, queue text not null, tenant_id text not null, payload jsonb not null,
  idempotency_key text, correlation_id text, traceparent text, tags text[],
  primary key ({{job_key}})) partition by range (id);

create sequence probe.ready_seq cache 1;
create table probe.ready (
  seq bigint not null default nextval('probe.ready_seq'), job_id uuid not null, run int not null default 1,
  shard smallint not null default 0, lane smallint not null, attempt smallint not null default 1,
  crashes smallint not null default 0, back boolean not null default false,
  queue text not null, tenant_id text not null);
create index ready_claim on probe.ready (shard, queue, lane, tenant_id, back, seq);
create index ready_job on probe.ready (job_id);

create table probe.lease (
  id uuid not null default gen_random_uuid(), worker_id uuid not null, locked_until timestamptz not null,
  shard smallint not null default 0, job_ids uuid[] not null, runs int[] not null, attempts smallint[] not null,
  crashes smallint[] not null, primary key (id, shard));
create index lease_until on probe.lease (shard, locked_until);
{{lease_storage}}

create table probe.outcome (
  job_id uuid not null, finished_at timestamptz not null default clock_timestamp(), run int not null,
  shard smallint not null default 0, attempt smallint not null, kind {{outcome_type}} not null, code text,
  primary key ({{outcome_key}})) partition by range (job_id);
create table probe.outcome_batch (
  lease_id uuid primary key, finished_at timestamptz not null, job_ids uuid[] not null, runs int[] not null, kinds smallint[]);

create function probe.enqueue(p_queue text, p_lane smallint, p_tenant text, p_type text, p_payload jsonb) returns uuid
language plpgsql {{head}} as $$
declare i uuid := probe.uuidv7(0);
begin
  insert into probe.job (id, lane, type, queue, tenant_id, payload) values (i, p_lane, p_type, p_queue, p_tenant, p_payload);
  insert into probe.ready (job_id, lane, queue, tenant_id) values (i, p_lane, p_queue, p_tenant);
  return i;
end $$;

create function probe.enqueue_many(p_queue text, p_lane smallint, p_tenant text, p_type text, p_payloads jsonb[]) returns uuid[]
language plpgsql {{head}} as $$
declare i uuid[] := probe.uuidv7_many(cardinality(p_payloads), 0);
begin
  insert into probe.job (id, lane, type, queue, tenant_id, payload)
    select u.id, p_lane, p_type, p_queue, p_tenant, u.payload from unnest(i, p_payloads) u(id, payload);
  insert into probe.ready (job_id, lane, queue, tenant_id) select u, p_lane, p_queue, p_tenant from unnest(i) u;
  return i;
end $$;

create function probe.claim(p_worker uuid, p_queue text, p_lanes smallint[], p_tenants text[], p_marks bigint[], p_quanta int[])
returns table (lease_id uuid, xid bigint, xmin bigint, tops bigint[], counts int[], job_ids uuid[], runs int[],
               attempts smallint[], types text[], payloads text[])
language plpgsql {{head}} as $$
#variable_conflict use_variable
declare crashes smallint[]; lo uuid; hi uuid;
begin
  {{lazy_commit}}
  with ranges as materialized (
    select * from unnest(p_lanes, p_tenants, p_marks, p_quanta) with ordinality r(lane, tenant_id, mark, quantum, nr)),
  back as materialized (
    select r.nr, x.ctid from ranges r, lateral (
      select y.ctid from probe.ready y where y.shard = 0 and y.queue = p_queue and y.lane = r.lane and y.tenant_id = r.tenant_id and y.back
      order by y.seq limit r.quantum for update skip locked) x),
  fresh as materialized (
    select r.nr, x.ctid from ranges r, lateral (
      select y.ctid from probe.ready y where y.shard = 0 and y.queue = p_queue and y.lane = r.lane and y.tenant_id = r.tenant_id
        and not y.back and y.seq > r.mark
      order by y.seq limit r.quantum - (select count(*) from back b where b.nr = r.nr) for update skip locked) x),
  taken as (
    delete from probe.ready y where y.ctid = any(array(select b.ctid from back b union all select f.ctid from fresh f))
    returning y.seq, y.lane, y.tenant_id, y.back, y.job_id, y.run, y.attempt, y.crashes),
  per_range as (
    select array_agg(x.top order by x.nr) tops, array_agg(x.n order by x.nr) counts from (
      select r.nr, max(t.seq) filter (where not t.back) top, count(t.seq)::int n
      from ranges r left join taken t on t.lane = r.lane and t.tenant_id = r.tenant_id group by r.nr) x)
  select array_agg(t.job_id), array_agg(t.run), array_agg(t.attempt), array_agg(t.crashes),
         (select p.tops from per_range p), (select p.counts from per_range p), pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    into job_ids, runs, attempts, crashes, tops, counts, xmin
    from (select * from taken order by job_id) t;
  if job_ids is null then
    return;
  end if;
  xid := pg_current_xact_id()::text::bigint;
  insert into probe.lease (worker_id, locked_until, job_ids, runs, attempts, crashes)
    values (p_worker, clock_timestamp() + interval '30 s', job_ids, runs, attempts, crashes) returning id into lease_id;
  {{read_jobs}}
  return next;
end $$;

create function probe.finish(p_leases uuid[]) returns bigint language plpgsql {{head}} as $$
declare n bigint; ids uuid[]; runs int[]; attempts smallint[];
begin
  {{finish}}
  return n;
end $$;
