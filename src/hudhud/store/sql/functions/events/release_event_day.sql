-- Find out whether a day of events can go, and if so take note of what subscriptions lose by it that nobody has announced for long,
--   or that were stopped.
-- Returns: one row: holders, the subscriptions that still need the day: it stays while there are any; losers: those for which it is
--   gone before they had it all. Can be repeated.
-- Raises: 55P03 when somebody who published on that day has not ended yet.
-- Touches: subscription. Locks: the day's partition against writes; nobody writes into a past day but who began then.
-- Called by: worker/maintainer.py.
create or replace function hudhud.release_event_day(day date, out holders text[], out losers text[])
language plpgsql security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
    lowest uuid := hudhud.first_id(day::timestamp at time zone 'UTC');
    beyond uuid := hudhud.first_id((day + 1)::timestamp at time zone 'UTC');
    wants record;
    amount integer;
begin
    holders := '{}';
    losers := '{}';
    execute format('lock table hudhud.%I in share mode', 'event_' || to_char(day, 'YYYYMMDD'));
    for wants in
        select s.name, s.state = 'paused' or (s.state = 'active' and not hudhud.is_silent(s.seen_at)) as holds
        from hudhud.subscription s
        order by holds desc, s.name
    loop
        if wants.holds then
            if hudhud.unrouted_events(wants.name, lowest, beyond, 1) > 0 then
                holders := holders || wants.name;
            end if;
        elsif cardinality(holders) = 0 then
            amount := hudhud.unrouted_events(wants.name, lowest, beyond, 2147483647);
            if amount > 0 then
                losers := losers || wants.name;
                update hudhud.subscription s set skipped = s.skipped + amount, skipped_to = day
                where s.name = wants.name and coalesce(s.skipped_to < day, true);
            end if;
        end if;
    end loop;
end $$;
