-- The oldest day of events that has been kept for as long as it must be; never yesterday or today.
-- Returns: null when there is none. Called by: worker/maintainer.py.
create or replace function hudhud.event_day_to_drop()
returns date language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
    -- Materialized, so that no other relation's name is read as a day.
    with kept as materialized (
        select to_date(right(c.relname, 8), 'YYYYMMDD') as day
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'hudhud.event'::regclass)
    select min(k.day)
    from kept k, hudhud.setting s
    where k.day + 1 <= (hudhud.clock() - s.keep_events) at time zone 'UTC'
      and k.day < (hudhud.clock() at time zone 'UTC')::date - 1
$$;
