-- The highest position that is taken; 0 when there is none. Asked of the sequence itself: its row shows, for an instant, what nextval
--   logs ahead of itself, 32 too high.
-- Called by: relay, position_before, is_ahead.
create or replace function hudhud.last_position()
returns bigint language sql volatile
set search_path = pg_catalog, pg_temp as $$
    select coalesce(pg_sequence_last_value('hudhud.event_position'), 0)
$$;
