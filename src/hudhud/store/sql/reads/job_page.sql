-- A page of jobs, newest first, at a cost that does not grow with the number of jobs.
-- Parameters: tenant_id (null: all tenants, for operators); status, type, queue, tag (null: any); after (null: from the
--   newest; else only jobs older than this id); rows_max; scan_max jobs are looked at.
-- Returns: rows of the columns of job_status but the payload, then queue, lane, tags and next. next is the same in every row:
--   the id to pass as `after`, null when there is no more. When the jobs looked at hold no match but more are left, the page
--   is one row whose id is null.
with
source as not materialized (
    select job.id, job.tenant_id, job.type, job.queue, job.lane, job.tags
    from hudhud.job_all job
    where %(status)s::text is null or %(status)s::text in ('succeeded', 'cancelled')
    union all
    select job.id, job.tenant_id, job.type, job.queue, job.lane, job.tags
    from hudhud.outcome_all outcome
    join hudhud.job_all job on job.id = outcome.job_id
    where outcome.outcome = 'fail' and %(status)s::text = 'dead'
    union all
    select job.id, job.tenant_id, job.type, job.queue, job.lane, job.tags
    from (
        select ready.job_id from hudhud.ready
        union all
        select scheduled.job_id from hudhud.scheduled
        union all
        select waiting.job_id from hudhud.waiting
    ) place
    join hudhud.job_all job on job.id = place.job_id
    where %(status)s::text in ('pending', 'retryable')
    union all
    select job.id, job.tenant_id, job.type, job.queue, job.lane, job.tags
    from (select distinct unnest(lease.job_ids) as job_id from hudhud.lease) held
    join hudhud.job_all job on job.id = held.job_id
    where %(status)s::text = 'running'
),
found as materialized (
    select status.*, seen.queue, hudhud.lane_name(seen.lane) as lane, coalesce(seen.tags, '{}') as tags
    from (
        select source.*
        from source
        where %(after)s::uuid is null or source.id < %(after)s::uuid
        order by source.id desc
        limit %(scan_max)s
    ) seen
    cross join lateral (select * from hudhud.job_status where job_status.id = seen.id) status
    where (%(tenant_id)s::text is null or seen.tenant_id = %(tenant_id)s::text)
      and (%(type)s::text is null or seen.type = %(type)s::text)
      and (%(queue)s::text is null or seen.queue = %(queue)s::text)
      and (%(tag)s::text is null or %(tag)s::text = any (seen.tags))
      and (%(status)s::text is null or status.status = %(status)s::text)
    order by seen.id desc
    limit %(rows_max)s
),
page as (
    select case
        when (select count(*) from found) = %(rows_max)s then (select found.id from found order by found.id limit 1)
        else (
            select source.id
            from source
            where %(after)s::uuid is null or source.id < %(after)s::uuid
            order by source.id desc
            offset %(scan_max)s - 1
            limit 1
        )
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
