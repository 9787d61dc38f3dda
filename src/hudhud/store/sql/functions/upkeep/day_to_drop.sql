-- The oldest day whose partitions can go: every retention has passed since its end, or what is left of it is to be kept aside.
-- Returns: null when there is none. Called by: worker/maintainer.py.
create or replace function hudhud.day_to_drop()
returns date language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
    select min(to_date(right(c.relname, 8), 'YYYYMMDD'))
    from pg_inherits i join pg_class c on c.oid = i.inhrelid, hudhud.setting s
    where i.inhparent in ('hudhud.job'::regclass, 'hudhud.outcome'::regclass, 'hudhud.log'::regclass)
      and to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= (hudhud.clock() - greatest(s.keep_succeeded, s.keep_cancelled)) at time zone 'UTC'
$$;
