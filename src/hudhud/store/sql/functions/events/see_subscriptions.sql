-- Say that a worker is there whose handlers these subscriptions' jobs need.
-- Touches: subscription, relay_state. Locks: rows that are to be changed, and skips those that a relay has: there is a next time.
-- Called by: worker/relay_watch.py, every few minutes.
create or replace function hudhud.see_subscriptions(names text[])
returns void language sql security definer
set search_path = pg_catalog, pg_temp as $$
    select hudhud.forgive_absence();
    with unseen as materialized (
        select s.name from hudhud.subscription s
        where s.name = any (names) and s.seen_at < hudhud.clock() - interval '1 minute'
        order by s.name for no key update skip locked)
    update hudhud.subscription s set seen_at = hudhud.clock() from unseen where s.name = unseen.name
$$;
