-- What only some jobs have, as JSON text; null for the many that have nothing of it.
-- Called by: fetch_jobs.
create or replace function hudhud.job_extras(
    idempotency_key text, correlation_id text, traceparent text, tags text[], root_id uuid, expires_at timestamptz)
returns text language sql stable parallel safe
return case
    when coalesce(idempotency_key, correlation_id, traceparent, tags[1], root_id::text, expires_at::text) is not null
    then jsonb_strip_nulls(jsonb_build_object(
        'idempotency_key', idempotency_key, 'correlation_id', correlation_id, 'traceparent', traceparent,
        'tags', to_jsonb(tags), 'root_id', root_id, 'expires_at', expires_at))::text
end;
