-- Take the idempotency keys of a batch, in key order, so that two batches never deadlock.
-- Parameters: arrays of one length; an element without a key is null in keys.
-- Returns: per element the id of the job that keeps its key, or null when the new job may be written.
-- Raises: HH001 for what no index row holds; HH003 as take_key, also when a batch names one key twice under reject or replace;
--   both with the position.
-- Touches: idempotency, and with replace as take_key. Called by: enqueue_many.
create or replace function hudhud.take_keys(
    tenant_ids text[], types text[], keys text[], new_ids uuid[], policies text[], hold_until timestamptz[])
returns uuid[] language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    holders uuid[] := array_fill(null::uuid, array[cardinality(new_ids)]);
    taken integer;
    is_done boolean;
    holder text;
    one record;
    place bigint := (
        select min(a.n) from unnest(tenant_ids, types, keys) with ordinality a(tenant_id, type, key, n)
        where octet_length(a.tenant_id) + octet_length(a.type) + octet_length(a.key) > 2600);
begin
    if place is not null then
        raise exception using errcode = 'HH001', message = format(
            'The job at position %s was refused: idempotency_key, type and tenant_id must have at most 2,600 bytes together.', place);
    end if;
    -- All at once: enough when each key was free, or belongs to a job that keeps it.
    begin
        with asked as (
            select * from unnest(tenant_ids, types, keys, new_ids, hold_until) as a(tenant_id, type, key, id, holds_until)
            where a.key is not null
        )
        insert into hudhud.idempotency (tenant_id, use, type, key, shard, job_id, created_at, expires_at)
        select a.tenant_id, 'enqueue', a.type, a.key, hudhud.shard_of(a.id), a.id, hudhud.clock(), a.holds_until
        from asked a
        order by a.tenant_id, a.type, a.key, a.id
        on conflict do nothing;
        get diagnostics taken = row_count;
        if taken = cardinality(array_remove(keys, null)) then
            return holders;
        end if;

        select array_agg(nullif(k.job_id, a.id) order by a.n),
               bool_and(a.key is null
                        or coalesce(k.job_id = a.id or a.policy = 'return_existing' and k.expires_at > hudhud.clock(), false))
        into holders, is_done
        from unnest(tenant_ids, types, keys, new_ids, policies) with ordinality as a(tenant_id, type, key, id, policy, n)
        left join lateral (
            select i.job_id, i.expires_at from hudhud.idempotency i
            where i.tenant_id = a.tenant_id and i.use = 'enqueue' and i.type = a.type and i.key = a.key
              and i.shard = hudhud.shard_of(a.id)
            limit 1) k on true;
        if is_done then
            return holders;
        end if;
        -- A key has to change hands, for which we may have to wait: let go of the later ones that we have.
        raise exception using errcode = 'HH900';
    exception when sqlstate 'HH900' then
        holders := array_fill(null::uuid, array[cardinality(new_ids)]);
    end;

    begin
        for one in
            select * from unnest(tenant_ids, types, keys, new_ids, policies, hold_until)
                with ordinality as a(tenant_id, type, key, id, policy, holds_until, n)
            where a.key is not null
            order by a.tenant_id, a.type, a.key, a.id
        loop
            holders[one.n] := hudhud.take_key(one.tenant_id, one.type, one.key, one.id, one.policy, one.holds_until);
        end loop;
    exception when sqlstate 'HH003' then
        get stacked diagnostics holder = pg_exception_detail;
        raise exception using errcode = 'HH003', detail = holder,
            message = format('The job at position %s was refused: %s', one.n, sqlerrm);
    end;
    return holders;
end $$;
