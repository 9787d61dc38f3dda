-- The idempotency key that stands for a payload, or for some of its fields.
-- jsonb is canonical: key order is irrelevant, and a missing field differs from null.
-- Parameters: fields '{payload}' for the whole payload, else names of fields.
-- Called by: enqueue, enqueue_many.
-- Returns: null when no fields are named: no key.
create or replace function hudhud.unique_key(payload jsonb, fields text[])
returns text language sql immutable strict parallel safe
return 'unique:' || encode(sha256(convert_to(
    case when fields = array['payload'] then payload::text
         else (select coalesce(jsonb_object_agg(name, payload -> name) filter (where payload ? name), '{}')::text
               from unnest(fields) name)
    end, 'UTF8')), 'hex');
