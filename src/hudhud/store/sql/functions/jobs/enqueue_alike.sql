-- Check jobs that share every option but payload, key and id, and write those that are new. Their keys are taken already.
-- Parameters: places: the position in the batch, for errors; null when that is the same. are_new: false for a job that exists
--   already; null when all are new.
-- Raises: as enqueue.
-- Touches: job, ready or scheduled, range_new. Called by: enqueue_many.
create or replace function hudhud.enqueue_alike(
    options hudhud.job_options, ids uuid[], payloads jsonb[], keys text[], places bigint[], notify boolean,
    are_new boolean[] default null)
returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    now timestamptz := hudhud.clock();
    kind hudhud.job_type%rowtype;
    of_queue text;
    of_lane smallint;
    attempts_max integer;
    bad record;
begin
    select * into kind from hudhud.job_type t where t.type = options.type and t.version = options.version;
    of_queue := coalesce(options.queue, kind.queue, 'default');
    of_lane := case when options.lane is null then coalesce(kind.lane, 2) else hudhud.lane_number(options.lane) end;
    attempts_max := coalesce(options.max_attempts, kind.max_attempts, 20);
    perform hudhud.check_options(
        options.type, options.version, options.tenant_id, of_queue, of_lane, null, options.on_conflict, options.available_at,
        options.expires_at, attempts_max, options.tags, options.traceparent, options.correlation_id,
        format(' at position %s', coalesce(places[1], 1)));
    if kind.type is null and exists (select from hudhud.queue q where q.name = of_queue and q.is_strict) then
        raise exception using errcode = 'HH004', message = format(
            'The job at position %s was refused: no worker has announced %s version %s, and queue %s is strict.',
            coalesce(places[1], 1), options.type, options.version, of_queue);
    end if;

    -- One pass that only finds the first doubtful payload; what is wrong with it is worked out for that one alone.
    for bad in
        select p.n, p.doc
        from unnest(payloads) with ordinality p(doc, n)
        where p.doc is null or jsonb_typeof(p.doc) <> 'object'
           or not (octet_length(p.doc::text) <= 200 or hudhud.is_readable(p.doc))
           or not coalesce(p.doc @@ kind.guard, kind.guard is null)
           or (not kind.is_open and p.doc - kind.field_names <> '{}')
        order by p.n
    loop
        perform hudhud.refuse_payload(options.type, options.version, bad.doc, format(' at position %s', coalesce(places[bad.n], bad.n)));
    end loop;

    if are_new is not null then
        select array_agg(a.id order by a.n), array_agg(a.payload order by a.n), array_agg(a.key order by a.n)
        into ids, payloads, keys
        from unnest(ids, payloads, keys, are_new) with ordinality a(id, payload, key, is_new, n) where a.is_new;
        if ids is null then
            return;
        end if;
    end if;
    insert into hudhud.job (
        id, shard, version, lane, max_attempts, created_at, available_at, expires_at, tenant_id, type, queue, payload,
        idempotency_key, correlation_id, traceparent, tags)
    select a.id, 0, options.version, of_lane, attempts_max, now, options.available_at, options.expires_at,
           options.tenant_id, options.type, of_queue, a.payload, a.key, options.correlation_id, options.traceparent, options.tags
    from unnest(ids, payloads, keys) a(id, payload, key);

    if options.available_at > now then
        insert into hudhud.scheduled (available_at, job_id, run, shard, lane, attempt, crashes, queue, tenant_id)
        select options.available_at, id, 1, 0, of_lane, 0, 0, of_queue, options.tenant_id from unnest(ids) id;
        return;
    end if;
    perform hudhud.register_range(0::smallint, of_queue, of_lane, options.tenant_id);
    -- After the job rows, so that a low-water mark over seq can trust transaction ids.
    insert into hudhud.ready (job_id, run, shard, line, lane, attempt, crashes, queue, tenant_id)
    select id, 1, 0, 2, of_lane, 0, 0, of_queue, options.tenant_id from unnest(ids) id;
    if notify then
        perform hudhud.wake(of_queue);
    end if;
end $$;
