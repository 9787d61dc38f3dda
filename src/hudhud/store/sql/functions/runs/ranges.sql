-- The scan ranges of a queue, after folding in what enqueues appended.
-- Returns: one row of two arrays of one length; empty arrays for a queue that never had a job.
-- Touches: range, range_new. Called by: worker/claimer.py.
create or replace function hudhud.ranges(queue text, shard integer default 0, out lanes smallint[], out tenants text[])
language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
    with appended as (
        delete from hudhud.range_new n
        where n.ctid = any (array(
            select ctid from hudhud.range_new x
            where x.shard = ranges.shard and x.queue = ranges.queue
            limit 1000 for update skip locked))
        returning n.lane, n.tenant_id
    )
    insert into hudhud.range (shard, queue, lane, tenant_id)
    select distinct ranges.shard, ranges.queue, a.lane, a.tenant_id from appended a
    order by a.lane, a.tenant_id
    on conflict do nothing;

    select coalesce(array_agg(r.lane order by r.lane, r.tenant_id), '{}'),
           coalesce(array_agg(r.tenant_id order by r.lane, r.tenant_id), '{}')
    into lanes, tenants
    from hudhud.range r
    where r.shard = ranges.shard and r.queue = ranges.queue;
end $$;
