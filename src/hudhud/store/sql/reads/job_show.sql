-- One job with all that is known of it, in one snapshot.
-- Parameters: id; tenant_id (null: any tenant, for operators).
-- Returns: no row, or one: the columns of job_status, then where it belongs, its links, its result, the last progress,
--   its ended runs, the newest lines of its log, and what operators did to it. Instants inside the arrays are ISO 8601 in UTC.
--   run_again_as: the job that a replay or a resubmission made of this one.
with
shown as materialized (
    select job.*
    from hudhud.job_all job
    where job.id = %(id)s::uuid
      and (%(tenant_id)s::text is null or job.tenant_id = %(tenant_id)s::text)
),
ended as (
    select outcome.*
    from hudhud.outcome_all outcome
    where outcome.job_id = %(id)s::uuid
),
written as (
    select log.*
    from hudhud.log_all log
    where log.job_id = %(id)s::uuid
    order by log.line desc
    limit 200
)
select
    status.*,
    shown.queue,
    hudhud.lane_name(shown.lane) as lane,
    coalesce(shown.tags, '{}') as tags,
    shown.expires_at,
    shown.traceparent,
    shown.root_id,
    shown.replay_of,
    shown.resubmit_of,
    (select (audit.detail ->> 'new_job')::uuid
     from hudhud.audit
     where audit.subject = %(id)s::uuid::text and audit.action in ('job.replay', 'job.resubmit')
     limit 1) as run_again_as,
    (select ended.result from ended where ended.outcome = 'succeed') as result,
    (select written.progress from written where written.progress is not null order by written.line desc limit 1) as progress,
    coalesce((
        select jsonb_agg(
            jsonb_build_object(
                'run', ended.run,
                'attempt', ended.attempt,
                'outcome', ended.outcome,
                'code', ended.code,
                'class', ended.class,
                'error', ended.error,
                'fingerprint', ended.fingerprint,
                'worker_id', nullif(ended.worker_id, '00000000-0000-0000-0000-000000000000'),
                'claimed_at', to_char(ended.claimed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                'finished_at', to_char(ended.finished_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
            order by ended.run)
        from ended), '[]') as history,
    coalesce((
        select jsonb_agg(
            jsonb_build_object(
                'run', written.run,
                'at', to_char(written.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                'level', written.level,
                'message', written.message,
                'progress', written.progress)
            order by written.line)
        from written), '[]') as log,
    coalesce((
        select jsonb_agg(
            jsonb_build_object(
                'at', to_char(audit.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                'actor', audit.actor,
                'action', audit.action,
                'reason', audit.reason,
                'detail', audit.detail)
            order by audit.id)
        from (
            select audit.*
            from hudhud.audit
            where audit.subject = %(id)s::uuid::text
              and (%(tenant_id)s::text is null or audit.tenant_id = %(tenant_id)s::text)
            order by audit.id desc
            limit 100
        ) audit), '[]') as acts
from shown
join hudhud.job_status status on status.id = %(id)s::uuid
