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
set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    seen record;
    holder uuid;
begin
    -- One look for all there is to know, which also says what is surely fine: every statement and expression of a function
    -- costs, and an ordinary enqueue needs three.
    select hudhud.new_id() as id, hudhud.clock() as now, c.*,
           exists (select from hudhud.range r
                   where r.shard = 0 and r.queue = c.of_queue and r.lane = c.of_lane and r.tenant_id = enqueue.tenant_id) as is_known,
           exists (select from hudhud.queue q where q.name = c.of_queue and q.busy_until > clock_timestamp()) as is_busy
    into seen
    from (
        select true as is_announced, coalesce(queue, t.queue) as of_queue,
               case when lane is null then t.lane else hudhud.lane_number(lane) end as of_lane,
               coalesce(max_attempts, t.max_attempts) as attempts_max,
               coalesce(octet_length(tenant_id) between 1 and 200 and on_conflict = 'return_existing', false)
                   and num_nonnulls(queue, lane, idempotency_key, unique_by, unique_for, available_at, delay, expires_at,
                                    max_attempts, correlation_id, traceparent, tags) = 0 as is_plain,
               coalesce(jsonb_typeof(payload) = 'object'
                        and (octet_length(payload::text) <= 200 or hudhud.is_readable(payload))
                        and (t.guard is null or payload @@ t.guard)
                        and (t.is_open or payload - t.field_names = '{}'), false) as is_fine
        from hudhud.job_type t
        where t.type = enqueue.type and t.version = enqueue.version
    ) c;
    if not found then
        select hudhud.new_id() as id, hudhud.clock() as now, false as is_announced, coalesce(queue, 'default') as of_queue,
               case when lane is null then 2::smallint else hudhud.lane_number(lane) end as of_lane,
               coalesce(max_attempts, 20) as attempts_max, false as is_plain, false as is_fine, false as is_known,
               exists (select from hudhud.queue q
                       where q.name = coalesce(queue, 'default') and q.busy_until > clock_timestamp()) as is_busy
        into seen;
    end if;
    id := seen.id;
    deduplicated := false;
    -- An ordinary one is asked nothing more.
    if not (seen.is_plain and seen.is_fine and seen.is_known) then
        if not seen.is_plain then
            if num_nonnulls(available_at, delay) = 2 then
                raise exception using errcode = 'HH001', message = 'Give available_at or delay, not both.';
            elsif unique_for is not null and num_nonnulls(idempotency_key, unique_by) = 0 then
                raise exception using errcode = 'HH001', message = 'unique_for needs idempotency_key or unique_by.';
            end if;
            available_at := coalesce(available_at, seen.now + delay);
            perform hudhud.check_options(
                type, version, tenant_id, seen.of_queue, seen.of_lane, idempotency_key, on_conflict, available_at, expires_at,
                seen.attempts_max, tags, traceparent, correlation_id);
            if not seen.is_announced and exists (select from hudhud.queue q where q.name = seen.of_queue and q.is_strict) then
                raise exception using errcode = 'HH004', message = format(
                    'No worker has announced %s version %s, and queue %s is strict.', type, version, seen.of_queue);
            end if;
        end if;
        if not seen.is_fine then
            perform hudhud.refuse_payload(type, version, payload);
        end if;

        if unique_by is not null then
            if idempotency_key is not null then
                raise exception using errcode = 'HH001', message = 'Give idempotency_key or unique_by, not both.';
            end if;
            idempotency_key := hudhud.unique_key(payload, unique_by);
        end if;
        if idempotency_key is not null then
            holder := hudhud.take_key(
                tenant_id, type, idempotency_key, id, on_conflict, coalesce(seen.now + unique_for, 'infinity'));
            if holder is not null then
                id := holder;
                deduplicated := true;
                return;
            end if;
        end if;

        if available_at > seen.now then
            insert into hudhud.job (
                id, shard, version, lane, max_attempts, created_at, available_at, expires_at, tenant_id, type, queue, payload,
                idempotency_key, correlation_id, traceparent, tags)
            values (
                id, 0, version, seen.of_lane, seen.attempts_max, seen.now, available_at, expires_at, tenant_id, type, seen.of_queue,
                payload, idempotency_key, correlation_id, traceparent, tags);
            insert into hudhud.scheduled (available_at, job_id, run, shard, lane, attempt, crashes, queue, tenant_id)
            values (available_at, id, 1, 0, seen.of_lane, 0, 0, seen.of_queue, tenant_id);
            return;
        end if;
        if not seen.is_known then
            perform hudhud.register_range(0::smallint, seen.of_queue, seen.of_lane, tenant_id);
        end if;
    end if;
    -- From the job row, and so after it: a low-water mark over seq can trust transaction ids.
    with asked as (
        insert into hudhud.job (
            id, shard, version, lane, max_attempts, created_at, available_at, expires_at, tenant_id, type, queue, payload,
            idempotency_key, correlation_id, traceparent, tags)
        values (
            id, 0, version, seen.of_lane, seen.attempts_max, seen.now, available_at, expires_at, tenant_id, type, seen.of_queue,
            payload, idempotency_key, correlation_id, traceparent, tags)
        returning job.id as job_id
    )
    insert into hudhud.ready (job_id, run, shard, line, lane, attempt, crashes, queue, tenant_id)
    select a.job_id, 1, 0, 2, seen.of_lane, 0, 0, seen.of_queue, tenant_id from asked a;
    if notify and not seen.is_busy then
        perform pg_notify('hudhud', seen.of_queue);
    end if;
end $$;
