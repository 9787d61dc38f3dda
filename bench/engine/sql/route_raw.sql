-- Placeholders: low, high. What a relay makes of events, without one: their jobs, by position, in one transaction.
with made as (
    insert into hudhud.job (
        id, shard, version, lane, max_attempts, created_at, tenant_id, type, queue, payload, correlation_id)
    select uuidv7(), 0, e.version, 2, 20, clock_timestamp(), e.tenant_id, 'unserved', 'unserved',
           jsonb_build_object('event', hudhud.event_document(
               e.id, e.type, e.version, e.tenant_id, e.aggregate_type, e.aggregate_id, e.sequence, e.position, e.occurred_at,
               e.correlation_id, e.causation_id, e.payload)),
           e.correlation_id
    from hudhud.event e where e.position between %(low)s and %(high)s
    returning id, tenant_id
)
insert into hudhud.ready (job_id, run, shard, line, lane, attempt, crashes, queue, tenant_id)
select id, 1, 0, 2, 2, 0, 0, 'unserved', tenant_id from made
