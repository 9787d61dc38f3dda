-- Whether every transaction older than a transaction id has ended.
-- Called by: store/partitions.py.
create or replace function hudhud.is_settled(xid bigint)
returns boolean language sql stable security definer
set search_path = pg_catalog, pg_temp
return pg_snapshot_xmin(pg_current_snapshot())::text::bigint > xid;
