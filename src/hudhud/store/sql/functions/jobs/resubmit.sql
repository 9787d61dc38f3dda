-- Run a dead job again with a corrected payload, as a new job linked to the dead one. The dead one's payload stays as it was.
-- Parameters: payload replaces the whole old one and is checked as at enqueue; the others as in replay.
-- Returns: the new job's id.
-- Raises: as replay, and HH001 or HH002 for the payload.
-- Touches: as replay.
create or replace function hudhud.resubmit(job_id uuid, payload jsonb, actor text, reason text, tenant_id text default null)
returns uuid language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
    if payload is null then
        raise exception using errcode = 'HH001', message = 'A resubmission needs the corrected payload.';
    end if;
    return hudhud.run_again(job_id, payload, 'job.resubmit', actor, reason, tenant_id);
end $$;
