-- Say that a worker process is alive, and learn which of its runs were asked to be cancelled.
-- Returns: one row of two arrays of one length.
-- Touches: worker, cancel_request and outcome (read). Called by: worker/lease.py, once a second.
create or replace function hudhud.beat(worker_id uuid, out job_ids uuid[], out runs integer[])
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
begin
    update hudhud.worker w set seen_at = hudhud.clock() where w.id = beat.worker_id;
    select coalesce(array_agg(c.job_id), '{}'), coalesce(array_agg(c.run), '{}') into job_ids, runs
    from hudhud.cancel_request c
    where c.worker_id = beat.worker_id
      and not hudhud.has_ended(c.job_id, c.run);
end $$;
