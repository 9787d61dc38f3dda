-- Record the end of a run with all its particulars; a job whose day has lost its partition keeps it in outcome_kept.
-- Parameters: kept_below: the mark of such days, as the caller read it; null to read it now.
-- Returns: false when that run had ended already.
-- Touches: outcome or outcome_kept. Called by: settle_runs, rescue, settle, end_unclaimed.
create or replace function hudhud.write_end(
    job_id uuid, run integer, attempt smallint, worker_id uuid, claimed_at timestamptz, now timestamptz, outcome text,
    code text default null, class text default null, error text default null, fingerprint text default null,
    result jsonb default null, kept_below uuid default null)
returns boolean language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
begin
    if job_id >= coalesce(kept_below, (select s.kept_below from hudhud.setting s)) then
        insert into hudhud.outcome values (
            job_id, run, hudhud.shard_of(job_id), attempt, worker_id, claimed_at, now, outcome, code, class, error,
            fingerprint, result)
        on conflict do nothing;
    else
        insert into hudhud.outcome_kept
        select job_id, run, hudhud.shard_of(job_id), attempt, worker_id, claimed_at, now, outcome, code, class, error,
               fingerprint, result
        where not exists (select from hudhud.outcome_all o where o.job_id = write_end.job_id and o.run = write_end.run)
        on conflict do nothing;
    end if;
    return found;
end $$;
