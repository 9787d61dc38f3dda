-- Take a stopped worker process off the list. Its leases, if any are left, end by themselves.
-- Touches: worker. Called by: worker/worker.py at stop.
create or replace function hudhud.leave(worker_id uuid)
returns void language sql security definer
set search_path = pg_catalog, pg_temp as $$
    delete from hudhud.worker w where w.id = leave.worker_id
$$;
