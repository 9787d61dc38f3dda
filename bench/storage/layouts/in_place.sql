-- Layout "in place": one table, its status updated where it lies. No index on anything that changes, half of each page left
-- free, so that every update can be heap-only; the claim walks (queue, lane, tenant, id) from a remembered id and the partitions
-- outside [mark, now] are pruned. An abandoned run would be found by the same walk (status 1, locked_until in the past); the fence is the random lease id of the batch.
create table probe.job (
  id uuid not null, created_at timestamptz not null default clock_timestamp(), locked_until timestamptz, finished_at timestamptz,
  lease_id uuid, version int not null default 1, run int not null default 0, shard smallint not null default 0,
  lane smallint not null, max_attempts smallint not null default 10, attempt smallint not null default 0,
  status smallint not null default 0, type text not null, queue text not null, tenant_id text not null, payload jsonb not null,
  idempotency_key text, correlation_id text, traceparent text, tags text[], code text,
  primary key (id)) partition by range (id);
create index job_claim on probe.job (shard, queue, lane, tenant_id, id);

create function probe.enqueue(p_queue text, p_lane smallint, p_tenant text, p_type text, p_payload jsonb) returns uuid
language plpgsql as $$
declare i uuid := probe.uuidv7(0);
begin
  insert into probe.job (id, lane, type, queue, tenant_id, payload) values (i, p_lane, p_type, p_queue, p_tenant, p_payload);
  return i;
end $$;

create function probe.enqueue_many(p_queue text, p_lane smallint, p_tenant text, p_type text, p_payloads jsonb[]) returns uuid[]
language plpgsql as $$
declare i uuid[] := probe.uuidv7_many(cardinality(p_payloads), 0);
begin
  insert into probe.job (id, lane, type, queue, tenant_id, payload)
    select u.id, p_lane, p_type, p_queue, p_tenant, u.payload from unnest(i, p_payloads) u(id, payload);
  return i;
end $$;

create function probe.claim(p_worker uuid, p_queue text, p_lane smallint, p_tenant text, p_mark uuid, p_n int)
returns table (top uuid, xid bigint, xmin bigint, job_ids uuid[], runs int[], attempts smallint[], types text[], payloads text[], lease_id uuid)
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
#variable_conflict use_variable
declare ceiling uuid := probe.id_floor(clock_timestamp() + interval '10 s'); picked uuid[];
begin
  select array_agg(x.id) into picked from (
    select j.id from probe.job j where j.shard = 0 and j.queue = p_queue and j.lane = p_lane and j.tenant_id = p_tenant
      and j.id > p_mark and j.id < ceiling and j.status = 0 order by j.id limit p_n for update skip locked) x;
  if picked is null then
    return;
  end if;
  lease_id := gen_random_uuid();
  with taken as (
    update probe.job j set status = 1, run = j.run + 1, attempt = j.attempt + 1, lease_id = lease_id,
        locked_until = clock_timestamp() + interval '30 s'
      where j.id = any(picked) and j.id between picked[1] and picked[cardinality(picked)]
      returning j.id, j.run, j.attempt, j.type, j.payload::text payload)
  select array_agg(t.id), array_agg(t.run), array_agg(t.attempt), array_agg(t.type), array_agg(t.payload)
    into job_ids, runs, attempts, types, payloads from (select * from taken order by id) t;
  top := picked[cardinality(picked)];
  xid := pg_current_xact_id()::text::bigint;
  xmin := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
  return next;
end $$;

create function probe.finish(p_ids uuid[], p_lease uuid) returns bigint
language plpgsql as $$
declare n bigint;
begin
  {{finish}}
  get diagnostics n = row_count;
  return n;
end $$;
