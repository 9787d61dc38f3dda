-- The idempotency key that stands for a payload, or for some of its fields.
-- jsonb is canonical: key order is irrelevant.
-- Parameters: fields '{payload}' for the whole payload, else names of fields; null for no key.
-- Raises: HH001 for a field that the payload does not have: a slip of the pen would make one key of all jobs.
-- Called by: enqueue, enqueue_many.
create or replace function hudhud.unique_key(payload jsonb, fields text[])
returns text language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp as $$
declare
    keyed jsonb := payload;
begin
    if fields is null then
        return null;
    end if;
    if fields <> array['payload'] then
        if not coalesce(payload ?& fields, false) or cardinality(fields) = 0 then
            raise exception using errcode = 'HH001', message = format(
                'The job was refused: unique_by names %s, and the payload does not have all of them.',
                array_to_string(fields, ', '));
        end if;
        keyed := (select jsonb_object_agg(name, payload -> name) from unnest(fields) name);
    end if;
    return 'unique:' || encode(sha256(convert_to(keyed::text, 'UTF8')), 'hex');
end $$;
