-- Say that a relay polls hard for the next moment, so that publishes need not notify.
-- Parameters: seconds ahead, at most 1.
-- Touches: relay_state. Called by: worker/relay.py, at most twice a second.
create or replace function hudhud.mark_relay(seconds real)
returns void language sql security definer
set search_path = pg_catalog, pg_temp as $$
    update hudhud.relay_state r set busy_until = clock_timestamp() + make_interval(secs => least(seconds, 1))
$$;
