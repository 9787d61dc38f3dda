-- A page of dead jobs, newest job first, with the error that ended each.
-- Parameters: tenant_id (null: all tenants, for operators); type, code, fingerprint (null: any); after (null: from the newest;
--   else only jobs older than this id); rows_max; scan_max dead jobs are looked at.
-- Returns: rows, then next as in job_page. run_again_as: the job that a replay or a resubmission made of this one.
with
source as not materialized (
    select outcome.*
    from hudhud.outcome_all outcome
    where outcome.outcome = 'fail' and (%(after)s::uuid is null or outcome.job_id < %(after)s::uuid)
),
found as materialized (
    select
        seen.job_id as id, job.type, job.version, job.tenant_id, job.queue, hudhud.lane_name(job.lane) as lane,
        seen.attempt::integer as attempts, job.max_attempts::integer as max_attempts, seen.code as last_error_code, seen.class,
        seen.error, seen.fingerprint, job.created_at, seen.finished_at, job.correlation_id, coalesce(job.tags, '{}') as tags,
        job.replay_of, job.resubmit_of,
        (select (audit.detail ->> 'new_job')::uuid
         from hudhud.audit
         where audit.subject = seen.job_id::text and audit.action in ('job.replay', 'job.resubmit')
         limit 1) as run_again_as
    from (select source.* from source order by source.job_id desc limit %(scan_max)s) seen
    cross join lateral (select * from hudhud.job_all where job_all.id = seen.job_id limit 1) job
    where (%(tenant_id)s::text is null or job.tenant_id = %(tenant_id)s::text)
      and (%(type)s::text is null or job.type = %(type)s::text)
      and (%(code)s::text is null or seen.code = %(code)s::text)
      and (%(fingerprint)s::text is null or seen.fingerprint = %(fingerprint)s::text)
    order by seen.job_id desc
    limit %(rows_max)s
),
page as (
    select case
        when (select count(*) from found) = %(rows_max)s then (select found.id from found order by found.id limit 1)
        else (select source.job_id from source order by source.job_id desc offset %(scan_max)s - 1 limit 1)
    end as next
)
select found.*, page.next
from page
left join found on true
where found.id is not null or page.next is not null
order by found.id desc
