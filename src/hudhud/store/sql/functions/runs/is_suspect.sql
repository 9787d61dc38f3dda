-- Whether a job is still suspected of having killed a worker: its last run that was not just handed back was lost.
-- Parameters: run: the run that is to come, or was handed back just now.
-- Called by: settle_runs, free_held, reschedule.
create or replace function hudhud.is_suspect(job_id uuid, run integer)
returns boolean language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
begin
    return coalesce((
        select o.outcome = 'lost' from hudhud.outcome_all o
        where o.job_id = is_suspect.job_id and o.run < is_suspect.run and o.outcome <> 'hand_back'
        order by o.run desc limit 1), false);
end $$;
