-- Make a scan range known to claimers. Appends only, so a new tenant's producers never wait for each other.
-- Touches: range_new. Called by: whatever makes a job claimable.
create or replace function hudhud.register_range(shard smallint, queue text, lane smallint, tenant_id text)
returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select from hudhud.range known
        where known.shard = register_range.shard and known.queue = register_range.queue
          and known.lane = register_range.lane and known.tenant_id = register_range.tenant_id) then
        insert into hudhud.range_new (shard, queue, lane, tenant_id)
        values (register_range.shard, register_range.queue, register_range.lane, register_range.tenant_id);
    end if;
end $$;
