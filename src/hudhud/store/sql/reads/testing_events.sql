-- Events as assert_published compares them, the newest first; the payload is JSON text.
-- Parameters: type, amount.
select
    event.id, event.type, event.version, event.tenant_id, event.payload::text as payload, event.aggregate_type, event.aggregate_id,
    event.sequence, event.correlation_id, event.causation_id, event.traceparent, event.occurred_at
from hudhud.event
where event.type = %(type)s::text
order by event.id desc
limit %(amount)s::integer
