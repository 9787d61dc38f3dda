-- The subscriptions that nobody has announced for so long that their events are not routed or kept any more.
-- Called by: worker/relay_watch.py.
create or replace function hudhud.silent_subscriptions()
returns text[] language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
    select coalesce(array_agg(s.name order by s.name), '{}') from hudhud.subscription s
    where s.state = 'active' and hudhud.is_silent(s.seen_at)
$$;
