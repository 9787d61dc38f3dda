-- Enqueue one job in the caller's transaction.
-- Parameters: type and version name the contract; payload is a JSON object. queue, lane and max_attempts default to what
--   the type announced, else 'default', 'normal' and 20. on_conflict: reject | return_existing | replace. unique_by:
--   '{payload}' or field names, instead of idempotency_key; unique_for: how long the key holds (else until the job is
--   pruned). available_at or delay: not before. notify: false for callers of PREPARE TRANSACTION.
-- Returns: the job's id, and whether it existed already under the key.
-- Raises: HH001 refused, HH002 too large, HH003 duplicate, HH004 unknown type on a strict queue; 23514 when nobody
--   has made this day's partitions (see days_ahead).
-- Touches: idempotency, job, ready or scheduled, range_new. Locks: only the key's row, when there is a key.
create or replace function hudhud.enqueue(
    type text, payload jsonb, version integer default 1, tenant_id text default 'default', queue text default null,
    lane text default null, idempotency_key text default null, on_conflict text default 'return_existing',
    unique_for interval default null, unique_by text[] default null, available_at timestamptz default null,
    delay interval default null, expires_at timestamptz default null, max_attempts integer default null,
    correlation_id text default null, traceparent text default null, tags text[] default null, notify boolean default true,
    out id uuid, out deduplicated boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
declare
    now timestamptz := hudhud.clock();
    kind hudhud.job_type%rowtype;
    lane_no smallint;
    holder uuid;
begin
    select * into kind from hudhud.job_type t where t.type = enqueue.type and t.version = enqueue.version;
    queue := coalesce(queue, kind.queue, 'default');
    lane_no := case when lane is null then coalesce(kind.lane, 2) else hudhud.lane_number(lane) end;
    max_attempts := coalesce(max_attempts, kind.max_attempts, 20);
    available_at := coalesce(available_at, now + delay);
    perform hudhud.check_options(
        type, version, tenant_id, queue, lane_no, idempotency_key, on_conflict, available_at, expires_at, max_attempts, tags,
        traceparent, correlation_id);
    -- One look that passes what is surely fine; what is wrong with the rest is worked out only then.
    if payload is null or jsonb_typeof(payload) <> 'object' or octet_length(payload::text) > 1000
       or exists (
           select from unnest(kind.field_names, kind.field_types, kind.field_needed) f(name, types, is_needed)
           where case when payload -> f.name is null then f.is_needed
                      else not hudhud.has_json_type(payload -> f.name, f.types) end)
       or (not kind.is_open and payload - kind.field_names <> '{}') then
        perform hudhud.refuse_payload(type, version, payload);
    end if;
    if kind.type is null and exists (select from hudhud.queue q where q.name = queue and q.is_strict) then
        raise exception using errcode = 'HH004',
            message = format('No worker has announced %s version %s, and queue %s is strict.', type, version, queue);
    end if;

    id := hudhud.new_id();
    deduplicated := false;
    if unique_by is not null then
        if idempotency_key is not null then
            raise exception using errcode = 'HH001', message = 'Give idempotency_key or unique_by, not both.';
        end if;
        idempotency_key := hudhud.unique_key(payload, unique_by);
    end if;
    if idempotency_key is not null then
        holder := hudhud.take_key(tenant_id, type, idempotency_key, id, on_conflict, coalesce(now + unique_for, 'infinity'));
        if holder is not null then
            id := holder;
            deduplicated := true;
            return;
        end if;
    end if;

    insert into hudhud.job (
        id, shard, version, lane, max_attempts, created_at, available_at, expires_at, tenant_id, type, queue, payload,
        idempotency_key, correlation_id, traceparent, tags)
    values (
        id, 0, version, lane_no, max_attempts, now, available_at, expires_at, tenant_id, type, queue, payload,
        idempotency_key, correlation_id, traceparent, tags);

    if available_at > now then
        insert into hudhud.scheduled (available_at, job_id, run, shard, lane, attempt, crashes, queue, tenant_id)
        values (available_at, id, 1, 0, lane_no, 0, 0, queue, tenant_id);
        return;
    end if;
    perform hudhud.register_range(0::smallint, queue, lane_no, tenant_id);
    -- After the job row, so that a low-water mark over seq can trust transaction ids.
    insert into hudhud.ready (job_id, run, shard, line, lane, attempt, crashes, queue, tenant_id)
    values (id, 1, 0, 2, lane_no, 0, 0, queue, tenant_id);
    if notify then
        perform hudhud.wake(queue);
    end if;
end $$;
