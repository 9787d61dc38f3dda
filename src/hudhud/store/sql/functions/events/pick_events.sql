-- The next events of a subscription, in order: what is visible in to_snapshot and not in from_snapshot. Up to from_position that is
--   what was published by transactions that were open in from_snapshot; above it, whatever came since.
-- Parameters: after and to_position: between these positions. A call reads what it returns, however much is to come or was routed
--   before; and what open transactions have published meanwhile, once.
-- Returns: at most max_events rows. Called by: relay.
create or replace function hudhud.pick_events(
    event_type text, epoch integer, from_snapshot pg_snapshot, to_snapshot pg_snapshot, from_position bigint, after bigint,
    to_position bigint, max_events integer)
returns table (
    "position" bigint, version smallint, tenant_id text, correlation_id text, traceparent text, document jsonb)
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
    -- Each by itself, as in due_subscriptions.
    with opened as materialized (
        select each.* from pg_snapshot_xip(from_snapshot) x(xid), lateral (
            select e.* from hudhud.event e
            where e.type = pick_events.event_type and e.epoch = pick_events.epoch and e.xid = x.xid
              and e.position > after and e.position <= pick_events.from_position
              and pg_visible_in_snapshot(x.xid, to_snapshot)
            order by e.position limit max_events offset 0) each
        order by each.position limit max_events),
    newer as (
        select e.* from hudhud.event e
        where e.type = pick_events.event_type and e.position > greatest(after, pick_events.from_position) and e.position > 0
          and e.position <= pick_events.to_position
          and e.epoch = pick_events.epoch
          and pg_visible_in_snapshot(e.xid, to_snapshot) and not pg_visible_in_snapshot(e.xid, from_snapshot)
        order by e.position limit max_events - (select count(*) from opened))
    select p.position, p.version, p.tenant_id, p.correlation_id, p.traceparent, hudhud.event_document(
        p.id, p.type, p.version, p.tenant_id, p.aggregate_type, p.aggregate_id, p.sequence, p.position, p.occurred_at,
        p.correlation_id, p.causation_id, p.payload)
    from (select * from opened union all select * from newer) p;
end $$;
