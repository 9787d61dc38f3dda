-- Take note that a worker is there, whichever; time in which none was (an outage, the age of a dump) makes no subscription silent.
-- Touches: relay_state; subscription after such a time. Locks: the one row of relay_state. Called by: announce_events,
--   see_subscriptions.
create or replace function hudhud.forgive_absence()
returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    now timestamptz := hudhud.clock();
    absence interval;
begin
    if not exists (select from hudhud.relay_state r where r.watched_at < now - interval '1 minute') then
        return;
    end if;
    select now - r.watched_at into absence from hudhud.relay_state r where r.only_row for no key update;
    -- They look every five minutes.
    if absence > interval '1 hour' then
        update hudhud.subscription s set seen_at = least(now, s.seen_at + absence);
    end if;
    update hudhud.relay_state r set watched_at = now where r.only_row;
end $$;
