-- The highest position that is taken. Events of transactions whose ids come after the caller's, which it does not have yet, have
--   higher ones: publish takes the position when it has the id.
-- Returns: null when the caller has an id. Asked of the sequence itself: its row shows for an instant what nextval logs ahead.
-- Called by: relay, announce_events; before anything that writes or locks.
create or replace function hudhud.position_before()
returns bigint language sql
set search_path = pg_catalog, pg_temp as $$
    select coalesce(pg_sequence_last_value('hudhud.event_position'), 0) where pg_current_xact_id_if_assigned() is null
$$;
