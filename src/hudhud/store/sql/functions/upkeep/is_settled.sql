-- Whether nobody writes into the partitions of a closed day any more.
-- A transaction that began before close_day committed has read the old mark, and may be younger than close_day itself: so the
--   first call after it only notes an id that all of them are older than.
-- Parameters: xid: what close_day returned.
-- Touches: setting. Called by: store/partitions.py, again and again, each time in a transaction of its own.
create or replace function hudhud.is_settled(xid bigint)
returns boolean language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    closed_xid bigint;
begin
    update hudhud.setting s set closed_xid = pg_current_xact_id()::text::bigint where s.closed_xid is null;
    if found then
        return false;
    end if;
    select s.closed_xid into closed_xid from hudhud.setting s;
    return pg_snapshot_xmin(pg_current_snapshot())::text::bigint > greatest(xid, closed_xid);
end $$;
