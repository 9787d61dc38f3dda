-- The dead jobs in groups that most likely have one cause, the largest group first.
-- Parameters: tenant_id (null: all tenants, for operators); rows_max groups; scan_max: only the newest so many dead jobs are
--   looked at.
-- Returns: type, last_error_code, fingerprint, the count among the jobs looked at, open_count of them not run again, when the
--   first and the last of them ended, the id and the error of the newest, and is_capped: there are more dead jobs than were
--   looked at.
with
seen as materialized (
    select outcome.job_id, outcome.code, outcome.fingerprint, outcome.error, outcome.finished_at
    from hudhud.outcome_all outcome
    where outcome.outcome = 'fail'
    order by outcome.job_id desc
    limit %(scan_max)s
)
select
    job.type,
    seen.code as last_error_code,
    seen.fingerprint,
    count(*) as count,
    count(*) filter (where not exists (
        select from hudhud.audit
        where audit.subject = seen.job_id::text and audit.action in ('job.replay', 'job.resubmit'))) as open_count,
    min(seen.finished_at) as first_seen_at,
    max(seen.finished_at) as last_seen_at,
    (array_agg(seen.job_id order by seen.finished_at desc))[1] as example_id,
    (array_agg(seen.error order by seen.finished_at desc))[1] as example_error,
    (select count(*) from seen) = %(scan_max)s as is_capped
from seen
cross join lateral (select * from hudhud.job_all where job_all.id = seen.job_id limit 1) job
where %(tenant_id)s::text is null or job.tenant_id = %(tenant_id)s::text
group by job.type, seen.code, seen.fingerprint
order by count(*) desc, max(seen.finished_at) desc
limit %(rows_max)s
