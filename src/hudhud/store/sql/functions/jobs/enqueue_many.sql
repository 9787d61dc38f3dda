-- Enqueue many jobs in the caller's transaction: every option of enqueue, one array each.
-- Parameters: payloads gives the number of jobs. Any other array is null (the default for all), has one element (for all)
--   or as many as payloads. unique_by: JSON, "payload" or an array of field names. tags: JSON arrays of text.
-- Returns: one row; per payload, in order, the job's id and whether it existed already under its key.
-- Raises: as enqueue; then nothing is enqueued. A batch that names one key twice is refused under reject and replace.
-- Touches: as enqueue. Locks: rows of keys in key order, so that two batches never deadlock.
create or replace function hudhud.enqueue_many(
    types text[], payloads jsonb[], versions integer[] default null, tenant_ids text[] default null,
    queues text[] default null, lanes text[] default null, idempotency_keys text[] default null,
    on_conflicts text[] default null, unique_for interval[] default null, unique_by jsonb[] default null,
    available_at timestamptz[] default null, delays interval[] default null, expires_at timestamptz[] default null,
    max_attempts integer[] default null, correlation_ids text[] default null, traceparents text[] default null,
    tags jsonb[] default null, notify boolean default true,
    out ids uuid[], out deduplicated boolean[])
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
declare
    amount integer := coalesce(cardinality(payloads), 0);
    now timestamptz := hudhud.clock();
    widths integer[] := array[
        cardinality(types), cardinality(versions), cardinality(tenant_ids), cardinality(queues), cardinality(lanes),
        cardinality(on_conflicts), cardinality(unique_for), cardinality(unique_by), cardinality(available_at),
        cardinality(delays), cardinality(expires_at), cardinality(max_attempts), cardinality(correlation_ids),
        cardinality(traceparents), cardinality(tags)];
    are_alike boolean := 1 >= all (array_remove(widths, null));
    keys text[];
    holders uuid[];
    are_new boolean[];
    place integer;
    batch record;
begin
    ids := '{}';
    deduplicated := '{}';
    if amount = 0 then
        return;
    end if;
    if types is null or exists (
        select from unnest(widths || cardinality(idempotency_keys)) width where width not in (1, amount)) then
        raise exception using errcode = 'HH001',
            message = format('Each array of enqueue_many must have 1 or %s elements, as payloads has; types is required.', amount);
    end if;
    if array_position(types, null) is not null then
        raise exception using errcode = 'HH001',
            message = format('The job at position %s was refused: it has no type.', array_position(types, null));
    end if;
    if idempotency_keys is not null and cardinality(idempotency_keys) <> amount then
        raise exception using errcode = 'HH001', message = 'idempotency_keys must have as many elements as payloads.';
    end if;
    if available_at is not null and delays is not null then
        place := (
            select min(n) from generate_series(1, amount) n
            where num_nonnulls(hudhud.pick(available_at, n), hudhud.pick(delays, n)) = 2);
        if place is not null then
            raise exception using errcode = 'HH001',
                message = format('The job at position %s was refused: give available_at or delay, not both.', place);
        end if;
    end if;

    ids := hudhud.new_ids(amount);
    deduplicated := array_fill(false, array[amount]);
    keys := idempotency_keys;
    if unique_by is not null then
        if exists (select from generate_series(1, amount) n where keys[n] is not null and hudhud.pick(unique_by, n) is not null) then
            raise exception using errcode = 'HH001', message = 'Give a job an idempotency key or unique_by, not both.';
        end if;
        -- Per job: its key, or one made of its payload, or none.
        keys := array(
            select coalesce(idempotency_keys[p.n], hudhud.unique_key(p.doc, hudhud.json_texts(hudhud.pick(unique_by, p.n))))
            from unnest(payloads) with ordinality p(doc, n) order by p.n);
    end if;
    if unique_for is not null then
        -- A term for all is one for those that have a key; a job's own needs a key of its own.
        place := (
            select min(n) from generate_series(1, amount) n
            where hudhud.pick(unique_for, n) is not null and keys[n] is null
              and (cardinality(unique_for) = amount or coalesce(num_nonnulls(variadic keys), 0) = 0));
        if place is not null then
            raise exception using errcode = 'HH001',
                message = format('The job at position %s was refused: unique_for needs idempotency_key or unique_by.', place);
        end if;
    end if;
    if keys is not null then
        perform hudhud.check_keys(keys);
        select hudhud.take_keys(
            array_agg(coalesce(hudhud.pick(tenant_ids, n), 'default')), array_agg(hudhud.pick(types, n)), keys, ids,
            array_agg(coalesce(hudhud.pick(on_conflicts, n), 'return_existing')),
            array_agg(coalesce(now + hudhud.pick(unique_for, n), 'infinity')))
        into holders from generate_series(1, amount) n;
        select array_agg(coalesce(h.holder, a.id) order by a.n), array_agg(h.holder is not null order by a.n)
        into ids, deduplicated
        from unnest(ids) with ordinality a(id, n) join unnest(holders) with ordinality h(holder, n) using (n);
    end if;

    if true = any (deduplicated) then
        are_new := array(select not known from unnest(deduplicated) with ordinality d(known, n) order by n);
    end if;
    if are_alike then
        perform hudhud.enqueue_alike(
            row(types[1], coalesce(versions[1], 1), coalesce(tenant_ids[1], 'default'), queues[1], lanes[1],
                coalesce(on_conflicts[1], 'return_existing'), coalesce(available_at[1], now + delays[1]), expires_at[1],
                max_attempts[1], correlation_ids[1], traceparents[1], hudhud.json_texts(tags[1]))::hudhud.job_options,
            ids, payloads, keys, null, notify, are_new);
        return;
    end if;
    for batch in
        select item.options, array_agg(item.id order by item.n) as ids, array_agg(item.payload order by item.n) as payloads,
               array_agg(item.key order by item.n) as keys, array_agg(item.n order by item.n) as places,
               case when are_new is not null then array_agg(are_new[item.n] order by item.n) end as are_new
        from (
            select n, ids[n] as id, payloads[n] as payload, keys[n] as key,
                   row(hudhud.pick(types, n), coalesce(hudhud.pick(versions, n), 1),
                       coalesce(hudhud.pick(tenant_ids, n), 'default'), hudhud.pick(queues, n), hudhud.pick(lanes, n),
                       coalesce(hudhud.pick(on_conflicts, n), 'return_existing'),
                       coalesce(hudhud.pick(available_at, n), now + hudhud.pick(delays, n)), hudhud.pick(expires_at, n),
                       hudhud.pick(max_attempts, n), hudhud.pick(correlation_ids, n), hudhud.pick(traceparents, n),
                       hudhud.json_texts(hudhud.pick(tags, n)))::hudhud.job_options as options
            from generate_series(1, amount) n
        ) item
        group by item.options
        order by min(item.n)
    loop
        perform hudhud.enqueue_alike(batch.options, batch.ids, batch.payloads, batch.keys, batch.places, notify, batch.are_new);
    end loop;
end $$;
