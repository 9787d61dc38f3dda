-- Run a dead job again as a new job with the same payload and options, linked to the dead one.
-- Parameters: actor and reason are required and audited; tenant_id as in cancel.
-- Returns: the new job's id.
-- Raises: HH001 no reason, HH006 not there, HH007 not dead, or replayed already.
-- Touches: job, ready, idempotency (its key moves to the new job), audit.
create or replace function hudhud.replay(job_id uuid, actor text, reason text, tenant_id text default null)
returns uuid language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
    return hudhud.run_again(job_id, null, 'job.replay', actor, reason, tenant_id);
end $$;
