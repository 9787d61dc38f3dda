-- The sessions of one's own role in this database, without the one that asks, and whether each is in a transaction.
select activity.pid, activity.state is distinct from 'idle' as is_busy
from pg_stat_activity activity
where activity.datname = current_database() and activity.usename = current_user
  and activity.backend_type = 'client backend' and activity.pid <> pg_backend_pid()
