-- What is wrong with a payload by the contract that its type announced.
-- Parameters: the contract as job_type keeps it; bytes_max for the payload's JSON text.
-- Returns: null when nothing is, else one sentence that names the JSON path.
-- Called by: refuse_payload, refuse_event.
create or replace function hudhud.payload_problem(
    payload jsonb, field_names text[], field_types text[], field_needed boolean[], is_open boolean)
returns text language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp as $$
declare
    field record;
    extra text;
begin
    if payload is null or jsonb_typeof(payload) <> 'object' then
        return 'The payload must be a JSON object.';
    end if;
    for field in
        select names.name, types.types, needed.is_needed, payload -> names.name as value
        from unnest(field_names) with ordinality names(name, n)
        join unnest(field_types) with ordinality types(types, n) using (n)
        join unnest(field_needed) with ordinality needed(is_needed, n) using (n)
    loop
        if field.value is null then
            if field.is_needed then
                return format('$.%s is missing.', hudhud.json_step(field.name));
            end if;
        elsif not hudhud.has_json_type(field.value, field.types) then
            return format('$.%s must be %s, not %s.', hudhud.json_step(field.name),
                replace(trim(both '|' from field.types), '|', ' or '), jsonb_typeof(field.value));
        end if;
    end loop;
    if not is_open then
        select name into extra from jsonb_object_keys(payload) name where name <> all (field_names) limit 1;
        if extra is not null then
            return format('$.%s is not a field of this type.', hudhud.json_step(extra));
        end if;
    end if;
    return null;
end $$;
