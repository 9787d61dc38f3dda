-- Let a job wait until an operator has decided about an effect; if that has happened meanwhile, it may go on at once.
-- Parameters: the job's next run, as put_back has them; the effect.
-- Touches: waiting, or ready. Locks: the effect's row against the decision, which looks for waiting jobs under the same lock.
-- Called by: settle_runs.
create or replace function hudhud.hold_for_effect(
    job_id uuid, run integer, attempt smallint, crashes smallint, effect_id uuid)
returns void language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
begin
    perform from hudhud.effect e where e.id = effect_id and e.state in ('intended', 'unknown') for share;
    if found then
        insert into hudhud.waiting (job_id, run, shard, lane, attempt, crashes, waits_for, contract, since, queue, tenant_id)
        select job_id, run, j.shard, j.lane, attempt, crashes, 'hold', 'effect:' || effect_id, hudhud.clock(), j.queue, j.tenant_id
        from hudhud.job_all j where j.id = job_id;
    else
        perform hudhud.put_back(job_id, run, attempt, crashes, 1::smallint, '-infinity');
    end if;
end $$;
