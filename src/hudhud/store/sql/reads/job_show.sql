-- One job with all that is known of it, in one snapshot.
-- Parameters: id; tenant_id (null: any tenant, for operators).
-- Returns: no row, or one: the columns of job_status, then where it belongs, its links, its result, the last progress,
--   its ended runs, the newest lines of its log, and what operators did to it. Times inside the arrays are ISO 8601.
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
    where outcome.job_id = (select shown.id from shown)
),
written as (
    select log.*
    from hudhud.log_all log
    where log.job_id = (select shown.id from shown)
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
                'claimed_at', ended.claimed_at,
                'finished_at', ended.finished_at)
            order by ended.run)
        from ended), '[]') as history,
    coalesce((
        select jsonb_agg(
            jsonb_build_object(
                'run', written.run,
                'at', written.at,
                'level', written.level,
                'message', written.message,
                'progress', written.progress)
            order by written.line)
        from written), '[]') as log,
    coalesce((
        select jsonb_agg(
            jsonb_build_object(
                'at', audit.at,
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
join hudhud.job_status status on status.id = shown.id
