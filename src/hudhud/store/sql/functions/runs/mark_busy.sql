-- Say that a worker polls a queue hard for the next moment, so that enqueues need not notify.
-- Parameters: seconds ahead, at most 1.
-- Touches: queue. Called by: worker/claimer.py, at most twice a second per queue.
create or replace function hudhud.mark_busy(queue text, seconds real)
returns void language sql security definer
set search_path = pg_catalog, pg_temp as $$
    insert into hudhud.queue as q (name, busy_until)
    values (mark_busy.queue, clock_timestamp() + make_interval(secs => least(seconds, 1)))
    on conflict (name) do update set busy_until = excluded.busy_until
$$;
