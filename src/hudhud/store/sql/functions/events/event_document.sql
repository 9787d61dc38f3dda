-- An event as its jobs carry it.
-- Called by: pick_events.
create or replace function hudhud.event_document(
    id uuid, type text, version smallint, tenant_id text, aggregate_type text, aggregate_id text, sequence bigint,
    "position" bigint, occurred_at timestamptz, correlation_id text, causation_id uuid, payload jsonb)
returns jsonb language sql stable parallel safe
return jsonb_build_object(
    'id', id, 'type', type, 'version', version, 'tenant_id', tenant_id,
    'aggregate', case when aggregate_id is not null then jsonb_build_object('type', aggregate_type, 'id', aggregate_id) end,
    'sequence', sequence, 'position', "position", 'occurred_at', occurred_at,
    'correlation_id', correlation_id, 'causation_id', causation_id, 'payload', payload);
