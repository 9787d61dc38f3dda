-- Make event types known, so that every publish can check payloads, and subscriptions, each with a cursor of its own.
-- Parameters: types: JSON array of {type, version, schema: as announce has it, personal: [field names], need: why they are there}.
--   subscriptions: JSON array of {name, event_type, queue, lane, max_attempts, start}; name is the type of its jobs, too. start
--   counts when it is new: 'now' (what is committed from here on), 'beginning' (all that is kept), or a position (what comes
--   after it).
-- Raises: HH011 for what cannot be, with its name. Touches: event_type, subscription, subscription_cursor,
--   relay_state.
-- Called by: worker/worker.py at start.
create or replace function hudhud.announce_events(types jsonb, subscriptions jsonb)
returns void language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    now timestamptz := hudhud.clock();
    -- Read before anything gives this transaction its id.
    before bigint := hudhud.position_before();
    present pg_snapshot;
begin
    perform hudhud.check_announced(types, subscriptions);
    perform hudhud.forgive_absence();
    insert into hudhud.event_type as t (
        type, version, field_names, field_types, field_needed, is_open, guard, personal_fields, personal_need, announced_at)
    select a.type, a.version, coalesce(f.names, '{}'), coalesce(f.types, '{}'), coalesce(f.needed, '{}'),
           coalesce((a.schema ->> 'open')::boolean, true), hudhud.payload_guard(f.names, f.types, f.needed),
           coalesce(hudhud.json_texts(a.personal), '{}'), a.need, now
    from jsonb_to_recordset(announce_events.types) as a(type text, version smallint, schema jsonb, personal jsonb, need text),
         hudhud.schema_fields(a.schema) f
    order by a.type, a.version
    on conflict (type, version) do update
    set (field_names, field_types, field_needed, is_open, guard, personal_fields, personal_need, announced_at) =
        (excluded.field_names, excluded.field_types, excluded.field_needed, excluded.is_open, excluded.guard,
         excluded.personal_fields, excluded.personal_need, excluded.announced_at);

    insert into hudhud.subscription as s (
        name, event_type, job_type, queue, lane, max_attempts, state, start_position, created_at, seen_at)
    select a.name, a.event_type, a.name, coalesce(a.queue, 'default'), coalesce(hudhud.lane_number(a.lane), 2),
           coalesce(a.max_attempts, 20), 'active', case when a.start ~ '^[0-9]+$' then a.start::bigint else 0 end, now, now
    from jsonb_to_recordset(announce_events.subscriptions) as a(
        name text, event_type text, queue text, lane text, max_attempts smallint, start text)
    order by a.name
    on conflict (name) do update
    set (queue, lane, max_attempts, seen_at) = (excluded.queue, excluded.lane, excluded.max_attempts, excluded.seen_at);

    present := hudhud.snapshot_below(pg_current_snapshot(), pg_current_xact_id());
    -- '3:3:' is the snapshot in which nothing is visible: no transaction has a smaller id than 3.
    insert into hudhud.subscription_cursor (
        subscription, number, epoch, from_snapshot, from_position, position, routed, moved_at)
    select a.name, 1,
           -- In a copy, now is the next epoch.
           case when n.is_now then e.epoch + (e.identity is not null and e.identity <> hudhud.database_identity())::integer
                else coalesce((select min(v.epoch) from hudhud.event v where v.type = a.event_type), e.epoch) end,
           case when n.is_now then present else '3:3:' end,
           coalesce(case when n.is_now and pg_snapshot_xmax(present) >= pg_current_xact_id() then before end, 0), 0, 0, now
    from jsonb_to_recordset(announce_events.subscriptions) as a(name text, event_type text, start text), hudhud.database_epoch e,
         lateral (select coalesce(a.start, 'now') = 'now' as is_now) n
    where not exists (select from hudhud.subscription_cursor c where c.subscription = a.name);
end $$;
