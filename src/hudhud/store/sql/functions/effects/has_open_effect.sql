-- Whether nobody knows yet what became of an effect of a job: it must be reconciled before the job may end otherwise.
-- Called by: decide_end, cancel, take_key, run_again.
create or replace function hudhud.has_open_effect(job_id uuid)
returns boolean language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
begin
    return exists (
        select from hudhud.effect e
        where e.job_id = has_open_effect.job_id and e.state in ('intended', 'unknown'));
end $$;
