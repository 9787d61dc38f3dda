-- As partitions_to_day, of events.
-- Parameters: day.
-- Columns: parent, name, state.
select to_date(right(c.relname, 8), 'YYYYMMDD') as day,
       left(c.relname, -9) as parent,
       c.relname as name,
       case when i.inhrelid is null then 'detached' when i.inhdetachpending then 'detaching' else 'attached' end as state
from pg_class c
left join pg_inherits i on i.inhrelid = c.oid
where c.relnamespace = 'hudhud'::regnamespace
  and c.relkind = 'r'
  and c.relname ~ '^event(_job)?_[0-9]{8}$'
  and to_date(right(c.relname, 8), 'YYYYMMDD') <= cast(%(day)s as date)
order by day, name
