-- Whether nobody has announced a subscription for so long that its events are neither routed nor kept for it any more.
-- Called by: due_subscriptions, relay, release_event_day, silent_subscriptions.
create or replace function hudhud.is_silent(seen_at timestamptz)
returns boolean language sql stable
set search_path = pg_catalog, pg_temp
return seen_at < hudhud.clock() - (select s.keep_silent from hudhud.setting s);
