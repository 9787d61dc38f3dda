-- What a monitor needs beside queue_overview, for all tenants, at a cost that does not grow with the number of jobs.
-- Parameters: seen_seconds: a worker counts as alive when it was seen within them.
-- Returns: one row: workers; partition_days_ahead; ready_total (jobs made claimable since the schema was made, from the
--   sequence); jobs_inserted and runs_ended: per partition the rows ever inserted, as the statistics count them, rolled back
--   ones included.
select
    (select count(*) from hudhud.worker
     where worker.seen_at > hudhud.clock() - make_interval(secs => %(seen_seconds)s)) as workers,
    hudhud.days_ahead() as partition_days_ahead,
    (select case when ready_seq.is_called then ready_seq.last_value else 0 end from hudhud.ready_seq) as ready_total,
    (select coalesce(jsonb_object_agg(stat.relname, stat.n_tup_ins), '{}')
     from pg_catalog.pg_inherits
     join pg_catalog.pg_stat_all_tables stat on stat.relid = pg_inherits.inhrelid
     where pg_inherits.inhparent = 'hudhud.job'::regclass) as jobs_inserted,
    (select coalesce(jsonb_object_agg(stat.relname, stat.n_tup_ins), '{}')
     from pg_catalog.pg_inherits
     join pg_catalog.pg_stat_all_tables stat on stat.relid = pg_inherits.inhrelid
     where pg_inherits.inhparent = 'hudhud.outcome'::regclass) as runs_ended
