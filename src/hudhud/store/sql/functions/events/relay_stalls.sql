-- The sessions that hold events up: who published and has not ended yet, so that nobody gets those events, and who publishes about the
--   same aggregate waits; and who holds a subscription's row, so that nothing of it is routed.
-- Parameters: stall_seconds: how long a transaction may take before it is named.
-- Returns: a row each; kind: publisher or subscription. pid is null for a prepared transaction, whose name is application.
--   Of other roles' sessions only who has pg_read_all_stats sees for how long.
-- Called by: worker/relay_watch.py, cli/doctor.py.
create or replace function hudhud.relay_stalls(stall_seconds double precision default 60)
returns table (
    kind text, subscription text, pid integer, role text, application text, state text, since timestamptz,
    seconds double precision)
language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
    with holder as (
        select distinct 'publisher' as kind, null as subscription, l.pid, l.virtualtransaction
        from pg_locks l
        where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.granted
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
          and l.relation in ('hudhud.event'::regclass, 'hudhud.event_aggregate'::regclass)
        union all
        select 'subscription', s.name, l.pid, l.virtualtransaction
        from hudhud.subscription s
        join pg_locks l on l.locktype = 'transactionid' and l.transactionid = s.xmax and l.mode = 'ExclusiveLock' and l.granted
    ), known as (
        select h.kind, h.subscription, a.pid, a.usename::text as role, a.application_name as application, a.state,
               a.xact_start as since
        from holder h join pg_stat_activity a on a.pid = h.pid
        where h.pid <> pg_backend_pid()
        union all
        select h.kind, h.subscription, null, p.owner::text, p.gid, 'prepared', p.prepared
        from holder h
        join pg_locks l on l.locktype = 'transactionid' and l.pid is null and l.virtualtransaction = h.virtualtransaction
        join pg_prepared_xacts p on p.transaction = l.transactionid
        where h.pid is null
    )
    select k.*, extract(epoch from clock_timestamp() - k.since)::double precision
    from known k
    where k.since <= clock_timestamp() - make_interval(secs => stall_seconds)
    order by k.since
$$;
