-- Raise the error for an event's payload that is too large, breaks its contract, or tells more about a person than its type may.
-- Raises: HH002 or HH011; nothing when the payload is fine.
-- Called by: publish, for what its first look did not pass.
create or replace function hudhud.refuse_event(type text, version integer, payload jsonb)
returns void language plpgsql stable
set search_path = pg_catalog, pg_temp as $$
declare
    bytes integer := octet_length(payload::text);
    bytes_max integer := (select s.event_bytes_max from hudhud.setting s);
    contract hudhud.event_type%rowtype;
    problem text;
    personal text;
begin
    if bytes > bytes_max then
        raise exception using errcode = 'HH002', message = format(
            'The event has %s bytes; at most %s are taken. Publish ids and references, and let subscribers fetch the rest.',
            bytes, bytes_max);
    end if;
    select * into contract from hudhud.event_type t where t.type = refuse_event.type and t.version = refuse_event.version;
    problem := hudhud.payload_problem(
        payload, coalesce(contract.field_names, '{}'), coalesce(contract.field_types, '{}'),
        coalesce(contract.field_needed, '{}'), coalesce(contract.is_open, true));
    select name into personal
    from hudhud.event_type t, unnest(t.personal_fields) name
    where t.type = refuse_event.type and (contract.type is null or t.version = contract.version)
      and t.personal_need is null and payload ? name
    limit 1;
    if problem is null and personal is not null then
        problem := format(
            '$.%s is personal, and the type does not state why an event needs it; publish a reference.', personal);
    end if;
    if problem is null and hudhud.unreadable_part(payload) is not null then
        problem := format('it %s.', hudhud.unreadable_part(payload));
    end if;
    if problem is not null then
        raise exception using errcode = 'HH011',
            message = format('The event %s version %s was refused: %s', type, version, problem);
    end if;
end $$;
