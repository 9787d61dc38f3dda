-- For how many more days jobs can be enqueued with the partitions that exist. doctor alarms below 7.
create or replace function hudhud.days_ahead()
returns integer language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
    select coalesce(max(to_date(right(c.relname, 8), 'YYYYMMDD')) - (clock_timestamp() at time zone 'UTC')::date, -1)
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'hudhud.job'::regclass
$$;
