-- Take a job from the place where it waits and end it as cancelled.
-- Parameters: code says why: 'replaced', or null for a plain cancel.
-- Returns: false when it is in no such place: it is running or has ended.
-- Touches: ready, scheduled, waiting, outcome. Called by: take_key, cancel.
create or replace function hudhud.end_unclaimed(id uuid, code text)
returns boolean language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    place record;
begin
    select * into place from hudhud.take_place(id);
    if place.run is null then
        return false;
    end if;
    return hudhud.write_end(
        id, place.run, place.attempt, '00000000-0000-0000-0000-000000000000', hudhud.clock(), hudhud.clock(), 'cancel', code);
end $$;
