-- A position below which nobody publishes whose transaction gets its id after the caller's: publish has the id before the position.
-- Returns: null when the caller has an id already.
-- Called by: relay, announce_events; before anything that writes or locks.
create or replace function hudhud.position_before()
returns bigint language sql volatile
set search_path = pg_catalog, pg_temp as $$
    select hudhud.last_position() where pg_current_xact_id_if_assigned() is null
$$;
