-- The highest position that is taken. Events of transactions whose ids come after the caller's, which it does not have yet, have
--   higher ones: publish takes the position when it has the id.
-- Returns: null when the caller has an id.
-- Called by: relay, announce_events; before anything that writes or locks.
create or replace function hudhud.position_before()
returns bigint language sql
set search_path = pg_catalog, pg_temp as $$
    select p.last_value - (not p.is_called)::integer from hudhud.event_position p where pg_current_xact_id_if_assigned() is null
$$;
