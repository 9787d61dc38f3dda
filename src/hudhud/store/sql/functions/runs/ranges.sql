-- The scan ranges of a queue that are newer than those a claimer knows, after folding in what enqueues appended.
-- Parameters: after: the newest that an earlier call returned; 0 for all.
-- Returns: one row: lanes and tenants of one length, at most 10,000, and newest, to be given to the next call.
-- Touches: range, range_new. Locks: one folder at a time, so that numbers are committed in their order; nobody waits for it.
-- Called by: worker/claimer.py.
create or replace function hudhud.ranges(
    queue text, after bigint default 0, shard integer default 0, out lanes smallint[], out tenants text[], out newest bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
    if exists (select from hudhud.range_new n where n.shard = ranges.shard and n.queue = ranges.queue)
       and pg_try_advisory_xact_lock(hashtext('hudhud.ranges')) then
        with appended as (
            delete from hudhud.range_new n
            where n.ctid = any (array(
                select x.ctid from hudhud.range_new x
                where x.shard = ranges.shard and x.queue = ranges.queue
                limit 1000 for update skip locked))
            returning n.lane, n.tenant_id
        )
        insert into hudhud.range (shard, queue, lane, tenant_id)
        select distinct ranges.shard, ranges.queue, a.lane, a.tenant_id from appended a
        where not exists (
            select from hudhud.range r
            where r.shard = ranges.shard and r.queue = ranges.queue and r.lane = a.lane and r.tenant_id = a.tenant_id);
    end if;

    select coalesce(array_agg(r.lane order by r.number), '{}'), coalesce(array_agg(r.tenant_id order by r.number), '{}'),
           coalesce(max(r.number), after)
    into lanes, tenants, newest
    from (
        -- In the order of its index, so that it is planned to be read from there, also on an empty table.
        select n.lane, n.tenant_id, n.number from hudhud.range n
        where n.shard = ranges.shard and n.queue = ranges.queue and n.number > after and n.number > 0
        order by n.number limit 10000) r;
end $$;
