-- Whether a run has ended. A function, because a join with outcome may be planned to read every outcome there is.
-- Called by: beat, finish, rescue, intend.
create or replace function hudhud.has_ended(job_id uuid, run integer)
returns boolean language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
begin
    return exists (select from hudhud.outcome o where o.job_id = has_ended.job_id and o.run = has_ended.run)
        or exists (select from hudhud.outcome_kept o where o.job_id = has_ended.job_id and o.run = has_ended.run);
end $$;
