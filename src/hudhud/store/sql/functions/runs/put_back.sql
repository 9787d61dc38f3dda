-- Give a job its next run: at once, later, or when a worker that can run it appears.
-- Parameters: line -1 for a suspect that must be alone, 0 for another suspect, 1 for others. is_held: wait for a worker that announces its type and version.
-- Touches: ready, scheduled or waiting, range_new. Called by: settle_runs, rescue, reschedule, free_held, run_again, hold_for_effect.
create or replace function hudhud.put_back(
    job_id uuid, run integer, attempt smallint, crashes smallint, line smallint, due timestamptz, is_held boolean default false)
returns void language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
declare
    job record;
begin
    select j.queue, j.lane, j.tenant_id, j.type, j.version, j.shard into job from hudhud.job_all j where j.id = put_back.job_id;
    -- Somebody deleted the job's row: there is nothing left to run.
    if not found then
        return;
    end if;
    if is_held then
        insert into hudhud.waiting (job_id, run, shard, lane, attempt, crashes, waits_for, contract, since, queue, tenant_id)
        values (job_id, run, job.shard, job.lane, attempt, crashes, 'hold', job.type || ':' || job.version,
                hudhud.clock(), job.queue, job.tenant_id);
    elsif due > hudhud.clock() then
        insert into hudhud.scheduled (available_at, job_id, run, shard, line, lane, attempt, crashes, queue, tenant_id)
        values (due, job_id, run, job.shard, line, job.lane, attempt, crashes, job.queue, job.tenant_id);
    else
        perform hudhud.register_range(job.shard, job.queue, job.lane, job.tenant_id);
        insert into hudhud.ready (job_id, run, shard, line, lane, attempt, crashes, queue, tenant_id)
        values (job_id, run, job.shard, line, job.lane, attempt, crashes, job.queue, job.tenant_id);
        perform hudhud.wake(job.queue);
    end if;
end $$;
