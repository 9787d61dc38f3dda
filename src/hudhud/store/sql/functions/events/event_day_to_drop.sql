-- The oldest day of events that has been kept for as long as it must be; never yesterday or today.
-- Returns: null when there is none. Called by: worker/maintainer.py.
create or replace function hudhud.event_day_to_drop()
returns date language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
    select min(to_date(right(c.relname, 8), 'YYYYMMDD'))
    from pg_inherits i join pg_class c on c.oid = i.inhrelid, hudhud.setting s
    where i.inhparent = 'hudhud.event'::regclass
      and to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= (hudhud.clock() - s.keep_events) at time zone 'UTC'
      and to_date(right(c.relname, 8), 'YYYYMMDD') < (hudhud.clock() at time zone 'UTC')::date - 1
$$;
