-- Raise the error for a payload that is too large or breaks its contract.
-- Raises: HH002 or HH001; nothing when the payload is fine.
-- Called by: enqueue and enqueue_alike for what their first look did not pass, run_again.
create or replace function hudhud.refuse_payload(type text, version integer, payload jsonb, place text default '')
returns void language plpgsql stable
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    bytes integer := octet_length(payload::text);
    bytes_max integer := (select payload_bytes_max from hudhud.setting);
    contract hudhud.job_type%rowtype;
    problem text;
begin
    if bytes > bytes_max then
        raise exception using errcode = 'HH002', message = format(
            'The payload%s has %s bytes; at most %s are taken. Store the document elsewhere and enqueue a reference to it.',
            place, bytes, bytes_max);
    end if;
    select * into contract from hudhud.job_type t where t.type = refuse_payload.type and t.version = refuse_payload.version;
    problem := hudhud.payload_problem(
        payload, coalesce(contract.field_names, '{}'), coalesce(contract.field_types, '{}'),
        coalesce(contract.field_needed, '{}'), coalesce(contract.is_open, true));
    if problem is not null then
        raise exception using errcode = 'HH001',
            message = format('The payload%s of %s version %s was refused: %s', place, type, version, problem);
    end if;
    problem := hudhud.unreadable_part(payload);
    if problem is not null then
        raise exception using errcode = 'HH001', message = format('The payload%s %s.', place, problem);
    end if;
end $$;
