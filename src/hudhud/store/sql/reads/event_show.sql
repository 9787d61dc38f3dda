-- One event, and the jobs that were made of it for its subscriptions, replays included, with how they stand.
-- Parameters: id; tenant_id (null: any tenant, for operators).
-- Returns: no row, or one: the columns of the event, aggregate as {type, id} or null, and up to 100 jobs as {id, type, status}.
select
    event.id, event.type, event.version, event.tenant_id,
    case when event.aggregate_id is not null
         then jsonb_build_object('type', event.aggregate_type, 'id', event.aggregate_id) end as aggregate,
    event.sequence, event.position, event.occurred_at, event.correlation_id, event.causation_id, event.traceparent,
    event.payload,
    coalesce((
        select jsonb_agg(jsonb_build_object('id', made.id, 'type', made.type, 'status', status.status) order by made.id)
        from (
            select job.id, job.type
            from hudhud.event_job
            cross join lateral (
                select job.id, job.type from hudhud.job_all job where job.id = event_job.job_id
                union all
                select again.id, again.type from hudhud.job_all again where again.root_id = event_job.job_id
                offset 0) job
            where event_job.event_id = event.id
            order by job.id limit 100
        ) made
        join hudhud.job_status status on status.id = made.id), '[]') as jobs
from hudhud.event
where event.id = %(id)s::uuid
  and (%(tenant_id)s::text is null or event.tenant_id = %(tenant_id)s::text)
