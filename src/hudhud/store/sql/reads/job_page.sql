-- A page of jobs, newest first, at a cost that does not grow with the number of jobs.
-- Parameters: tenant_id (null: all tenants, for operators); status, type, queue, tag (null: any); after (null: from the
--   newest; else only jobs older than this id); rows_max; scan_max jobs are looked at.
-- Returns: rows of the columns of job_status but the payload, then queue, lane, tags and next. next is the same in every row:
--   the id to pass as `after`, null when there is no more. When the jobs looked at hold no match but more are left, the page
--   is one row whose id is null.
-- Each branch of source stands for some statuses and the others fall away in planning. `limit 1` in a lateral makes it a
-- look-up by id, never a join over everything.
with
source as not materialized (
    (select job.id
     from hudhud.job_all job
     where (%(status)s::text is null or %(status)s::text in ('succeeded', 'cancelled'))
       and (%(after)s::uuid is null or job.id < %(after)s::uuid)
     order by job.id desc
     limit %(scan_max)s)
    union all
    (select outcome.job_id
     from hudhud.outcome_all outcome
     where %(status)s::text = 'dead' and outcome.outcome = 'fail'
       and (%(after)s::uuid is null or outcome.job_id < %(after)s::uuid)
     order by outcome.job_id desc
     limit %(scan_max)s)
    union all
    (select ready.job_id
     from hudhud.ready
     where %(status)s::text in ('pending', 'retryable') and (%(after)s::uuid is null or ready.job_id < %(after)s::uuid)
     order by ready.job_id desc
     limit %(scan_max)s)
    union all
    (select scheduled.job_id
     from hudhud.scheduled
     where %(status)s::text in ('pending', 'retryable') and (%(after)s::uuid is null or scheduled.job_id < %(after)s::uuid)
     order by scheduled.job_id desc
     limit %(scan_max)s)
    union all
    (select waiting.job_id
     from hudhud.waiting
     where %(status)s::text in ('pending', 'retryable') and (%(after)s::uuid is null or waiting.job_id < %(after)s::uuid)
     order by waiting.job_id desc
     limit %(scan_max)s)
    union all
    (select held.job_id
     from (select distinct unnest(lease.job_ids) as job_id from hudhud.lease) held
     where %(status)s::text = 'running' and (%(after)s::uuid is null or held.job_id < %(after)s::uuid)
     order by held.job_id desc
     limit %(scan_max)s)
),
found as materialized (
    select status.*, job.queue, hudhud.lane_name(job.lane) as lane, coalesce(job.tags, '{}') as tags
    from (select source.id from source order by source.id desc limit %(scan_max)s) seen
    cross join lateral (select * from hudhud.job_all where job_all.id = seen.id limit 1) job
    cross join lateral (select * from hudhud.job_status where job_status.id = job.id limit 1) status
    where (%(tenant_id)s::text is null or job.tenant_id = %(tenant_id)s::text)
      and (%(type)s::text is null or job.type = %(type)s::text)
      and (%(queue)s::text is null or job.queue = %(queue)s::text)
      and (%(tag)s::text is null or %(tag)s::text = any (job.tags))
      and (%(status)s::text is null or status.status = %(status)s::text)
    order by seen.id desc
    limit %(rows_max)s
),
page as (
    select case
        when (select count(*) from found) = %(rows_max)s then (select found.id from found order by found.id limit 1)
        else (select source.id from source order by source.id desc offset %(scan_max)s - 1 limit 1)
    end as next
)
select
    found.id, found.type, found.version, found.tenant_id, found.idempotency_key, found.status, found.waiting_for,
    found.attempts, found.max_attempts, found.available_at, found.locked_by, found.locked_until, found.last_error_code,
    found.created_at, found.finished_at, found.correlation_id, found.queue, found.lane, found.tags, page.next
from page
left join found on true
where found.id is not null or page.next is not null
order by found.id desc
