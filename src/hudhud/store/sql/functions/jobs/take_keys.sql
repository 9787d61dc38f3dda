-- Take the idempotency keys of a batch, in key order, so that two batches never deadlock.
-- Parameters: arrays of one length; an element without a key is null in keys.
-- Returns: per element the id of the job that keeps its key, or null when the new job may be written.
-- Raises: HH003 as take_key; also when a batch names one key twice under reject or replace.
-- Touches: as take_key. Called by: enqueue_many.
create or replace function hudhud.take_keys(
    tenant_ids text[], types text[], keys text[], new_ids uuid[], policies text[], hold_until timestamptz[])
returns uuid[] language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    holders uuid[] := array_fill(null::uuid, array[cardinality(new_ids)]);
    taken uuid[];
    loser record;
begin
    with asked as (
        select * from unnest(tenant_ids, types, keys, new_ids, hold_until) as a(tenant_id, type, key, id, holds_until)
        where a.key is not null
    ), won as (
        insert into hudhud.idempotency (tenant_id, use, type, key, shard, job_id, created_at, expires_at)
        select a.tenant_id, 'enqueue', a.type, a.key, hudhud.shard_of(a.id), a.id, hudhud.clock(), a.holds_until
        from asked a
        order by a.tenant_id, a.type, a.key, a.id
        on conflict do nothing
        returning job_id
    )
    select coalesce(array_agg(job_id), '{}') into taken from won;

    if cardinality(taken) = cardinality(array_remove(keys, null)) then
        return holders;
    end if;
    for loser in
        select * from unnest(tenant_ids, types, keys, new_ids, policies, hold_until)
            with ordinality as a(tenant_id, type, key, id, policy, holds_until, n)
        where a.key is not null and not exists (select from unnest(taken) won(id) where won.id = a.id)
        order by a.tenant_id, a.type, a.key, a.id
    loop
        holders[loser.n] := hudhud.take_key(
            loser.tenant_id, loser.type, loser.key, loser.id, loser.policy, loser.holds_until);
    end loop;
    return holders;
end $$;
