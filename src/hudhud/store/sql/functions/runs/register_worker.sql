-- Make a worker process known. Its id is new with each process start, so nobody inherits a dead one's leases by a name.
-- Touches: worker. Called by: worker/worker.py at start.
create or replace function hudhud.register_worker(
    worker_id uuid, name text, host text, pid integer, queues text[], contracts text[], release text)
returns void language sql security definer
set search_path = pg_catalog, pg_temp as $$
    insert into hudhud.worker (id, name, host, pid, queues, contracts, release, started_at, seen_at)
    values (worker_id, name, host, pid, queues, contracts, release, hudhud.clock(), hudhud.clock())
$$;
