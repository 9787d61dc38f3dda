-- From now on, write what happens to a day's jobs beside its partitions. First of the steps that drop a day; after it the
--   maintainer waits until every transaction that may still write into them has ended, then calls keep_survivors.
-- Returns: its own transaction id, for is_settled.
-- Touches: setting. Called by: store/partitions.py.
create or replace function hudhud.close_day(day date)
returns bigint language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
    update hudhud.setting s
    set kept_below = greatest(s.kept_below, hudhud.first_id((day + 1)::timestamp at time zone 'UTC')), closed_xid = null;
    return pg_current_xact_id()::text::bigint;
end $$;
