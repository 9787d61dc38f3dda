-- Each job as users know it. Running = exists, is in no waiting place, and has no final outcome, in one snapshot.
create or replace view hudhud.job_status as
select
    job.id,
    job.type,
    job.version,
    job.tenant_id,
    job.idempotency_key,
    job.payload,
    case
        when last_end.outcome = 'succeed' then 'succeeded'
        when last_end.outcome = 'fail' then 'dead'
        when last_end.outcome = 'cancel' then 'cancelled'
        when place.job_id is null then 'running'
        when last_end.outcome in ('retry', 'lost') then 'retryable'
        else 'pending'
    end as status,
    place.waiting_for,
    coalesce(place.attempt, held.attempt, last_end.attempt, 0)::integer as attempts,
    job.max_attempts::integer as max_attempts,
    coalesce(place.available_at, job.available_at, job.created_at) as available_at,
    held.worker_id as locked_by,
    held.locked_until,
    last_end.code as last_error_code,
    job.created_at,
    case when last_end.outcome in ('succeed', 'fail', 'cancel') then last_end.finished_at end as finished_at,
    job.correlation_id
from hudhud.job_all job
left join lateral (
    select outcome.outcome, outcome.code, outcome.attempt, outcome.finished_at
    from hudhud.outcome_all outcome
    where outcome.job_id = job.id and outcome.shard = job.shard
    order by outcome.run desc
    limit 1
) last_end on true
left join lateral (
    select ready.job_id, ready.attempt, null::text as waiting_for, null::timestamptz as available_at
    from hudhud.ready where ready.job_id = job.id
    union all
    select scheduled.job_id, scheduled.attempt, 'time', scheduled.available_at
    from hudhud.scheduled where scheduled.job_id = job.id
    union all
    select waiting.job_id, waiting.attempt, waiting.waits_for, null
    from hudhud.waiting where waiting.job_id = job.id
) place on true
left join lateral (
    select lease.worker_id, lease.locked_until, lease.attempts[array_position(lease.job_ids, job.id)] as attempt
    from hudhud.lease
    where place.job_id is null
      and coalesce(last_end.outcome not in ('succeed', 'fail', 'cancel'), true)
      and job.id = any (lease.job_ids)
    -- The newest run: an older lease may still be open for its other jobs.
    order by lease.runs[array_position(lease.job_ids, job.id)] desc
    limit 1
) held on true;
