-- Jobs as assert_enqueued compares them, the newest first; payload and tags are JSON text.
-- Parameters: type, amount.
select
    job.id, job.type, job.version, job.tenant_id, job.queue, hudhud.lane_name(job.lane) as lane, job.payload::text as payload,
    status.status, job.idempotency_key, job.correlation_id, job.traceparent, job.max_attempts::integer as max_attempts,
    extract(epoch from job.available_at - job.created_at)::double precision as delay_seconds, job.available_at, job.expires_at,
    coalesce(to_json(job.tags), '[]')::text as tags, job.created_at
from hudhud.job_all job
join hudhud.job_status status on status.id = job.id
where job.type = %(type)s::text
order by job.id desc
limit %(amount)s::integer
