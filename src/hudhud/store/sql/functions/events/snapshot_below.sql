-- A snapshot of the same that ends with an id instead of the last transaction that was over, and names all between as not over.
--   PostgreSQL's own leaves out who had an id already, when nobody with a later one was over.
-- Returns: the snapshot as it was when that is not below the id, or when there are more between than can be looked for one by one.
-- Called by: relay, announce_events.
create or replace function hudhud.snapshot_below(snapshot pg_snapshot, id xid8)
returns pg_snapshot language sql immutable
set search_path = pg_catalog, pg_temp as $$
    select case
        when id::text::bigint - pg_snapshot_xmax(snapshot)::text::bigint between 1 and 200 then concat_ws(
            ':', pg_snapshot_xmin(snapshot), id, (
                select string_agg(x.xid::text, ',' order by x.xid)
                from (
                    select xid::text::bigint from pg_snapshot_xip(snapshot) xid
                    union all
                    select generate_series(pg_snapshot_xmax(snapshot)::text::bigint, id::text::bigint - 1)) x(xid)))::pg_snapshot
        else snapshot end
$$;
