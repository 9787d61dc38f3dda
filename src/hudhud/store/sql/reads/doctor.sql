-- What `hudhud doctor` looks at inside the database. Shows operators everything; it is no read for tenants.
-- Parameters: seen_seconds: a worker counts as alive when it was seen within them. overdue_seconds: a lease that ended longer ago
--   should have been taken back. count_max: counting stops there.
-- Returns: one row. clock_seconds_off: how far hudhud.clock() is from the server's own clock, not 0 when a test has set it.
--   oldest_transaction_seconds: the oldest open transaction that this role can see; sees_all: whether it sees those of others.
--   partition_days_ahead: for how many more days jobs can be enqueued. leases_overdue: those, and how long the oldest has been
--   over. effects_asking: effects of which only an operator can say what became. is_copy: events are not routed until a rebase. settings: the policies that all clients share.
select
    current_setting('server_version') as server_version,
    current_setting('server_version_num')::integer as server_version_number,
    current_user as role,
    pg_is_in_recovery() as is_replica,
    current_setting('fsync') as fsync,
    current_setting('synchronous_commit') as synchronous_commit,
    current_setting('max_connections')::integer as connections_max,
    pg_has_role(current_user, 'pg_read_all_stats', 'member') as sees_all,
    (select extract(epoch from max(clock_timestamp() - activity.xact_start))::double precision
     from pg_catalog.pg_stat_activity activity
     where activity.datname = current_database() and activity.pid <> pg_backend_pid()) as oldest_transaction_seconds,
    extract(epoch from hudhud.clock() - clock_timestamp())::double precision as clock_seconds_off,
    hudhud.days_ahead() as partition_days_ahead,
    (select coalesce(database_epoch.identity <> hudhud.database_identity(), false) from hudhud.database_epoch) as is_copy,
    (select count(*) from hudhud.worker
     where worker.seen_at > hudhud.clock() - make_interval(secs => %(seen_seconds)s)) as workers,
    overdue.leases as leases_overdue,
    extract(epoch from hudhud.clock() - overdue.oldest)::double precision as overdue_seconds_max,
    (select count(*)
     from (
         select
         from hudhud.effect
         where effect.state in ('intended', 'unknown') and effect.reconcile = 'none' and effect.reconcile_after <= hudhud.clock()
         limit %(count_max)s
     ) asking) as effects_asking,
    (select to_jsonb(setting) - 'only_row' from hudhud.setting) as settings
from (
    select count(*) as leases, min(late.locked_until) as oldest
    from (
        select lease.locked_until
        from hudhud.lease
        where lease.shard = 0 and lease.locked_until < hudhud.clock() - make_interval(secs => %(overdue_seconds)s)
        order by lease.locked_until
        limit %(count_max)s
    ) late
) overdue
