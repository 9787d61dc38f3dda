-- One job with the fields that users know, as the view job_status has them.
-- Parameters: id; tenant_id (null: any tenant, for operators).
-- Returns: no row, or one. payload is JSON text, for no two drivers agree on what to make of a jsonb column.
select
    status.id, status.type, status.version, status.tenant_id, status.idempotency_key, status.payload::text as payload,
    status.status, status.waiting_for, status.attempts, status.max_attempts, status.available_at, status.locked_by,
    status.locked_until, status.last_error_code, status.created_at, status.finished_at, status.correlation_id
from hudhud.job_status status
where status.id = %(id)s::uuid
  and (%(tenant_id)s::text is null or status.tenant_id = %(tenant_id)s::text)
