-- What an asked end becomes. Only a retry or a hand-back can become another one.
-- Returns: the outcome and code to record.
-- Touches (reads): cancel_request, effect, idempotency, job_all, outcome_all. Called by: settle_runs, rescue.
create or replace function hudhud.decide_end(
    job_id uuid, asked text, asked_code text, asked_class text, attempt smallint, class_attempts_max integer,
    age_seconds_max double precision, now timestamptz, out outcome text, out code text)
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
declare
    job record;
begin
    outcome := asked;
    code := asked_code;
    if asked not in ('retry', 'snooze', 'hand_back', 'lost') then
        return;
    end if;
    -- Who asked for the end of a job did not ask for an effect of which nobody knows: that is looked into first.
    if exists (select from hudhud.cancel_request c where c.job_id = decide_end.job_id) and not hudhud.has_open_effect(job_id) then
        outcome := 'cancel';
        return;
    end if;
    if asked not in ('retry', 'lost') then
        return;
    end if;
    select j.tenant_id, j.type, j.idempotency_key, j.max_attempts, j.created_at into job
    from hudhud.job_all j where j.id = decide_end.job_id;
    if job.idempotency_key is not null and exists (
        select from hudhud.idempotency k
        where k.tenant_id = job.tenant_id and k.use = 'enqueue' and k.type = job.type and k.key = job.idempotency_key
          and k.shard = hudhud.shard_of(decide_end.job_id) and k.job_id <> decide_end.job_id) then
        outcome := 'fail';
        code := 'superseded';
    elsif attempt >= job.max_attempts
       or extract(epoch from now - job.created_at) >= age_seconds_max
       or class_attempts_max <= 1 + (
           select count(*) from hudhud.outcome_all o
           where o.job_id = decide_end.job_id and o.outcome = 'retry' and o.class = asked_class) then
        outcome := 'fail';
    end if;
end $$;
