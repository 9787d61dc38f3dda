-- Refuse an announcement of event types or subscriptions that cannot be.
-- Parameters: as announce_events takes them.
-- Raises: HH011 with what is wrong. Called by: announce_events.
create or replace function hudhud.check_announced(types jsonb, subscriptions jsonb)
returns void language plpgsql stable
set search_path = pg_catalog, pg_temp as $$
declare
    problem text;
begin
    select format('event type %s version %s: %s', checked.type, checked.version, checked.problem) into problem
    from (
        select a.type, a.version, case
            when a.type is null or length(a.type) not between 1 and 200 then 'type must have 1 to 200 characters'
            when a.version is null or a.version not between 1 and 32767 then 'version must be 1 to 32767'
            else (
                select format('$.%s must have a JSON type, any, or a list of them', f.key)
                from (select * from jsonb_each(a.schema -> 'required') union all select * from jsonb_each(a.schema -> 'optional')) f
                where not coalesce(hudhud.json_texts(f.value) <@ array['string', 'number', 'integer', 'boolean', 'object', 'array', 'null', 'any']
                                   and cardinality(hudhud.json_texts(f.value)) > 0, false)
                limit 1)
        end as problem
        from jsonb_to_recordset(types) as a(type text, version integer, schema jsonb)
    ) checked where checked.problem is not null limit 1;
    if problem is null then
        select format('subscription %s: %s', checked.name, checked.problem) into problem
        from (
            select a.name, case
                when a.name is null or length(a.name) not between 1 and 200 then 'its name must have 1 to 200 characters'
                when a.event_type is null or length(a.event_type) not between 1 and 200 then 'event_type must have 1 to 200 characters'
                when octet_length(a.queue) not between 1 and 63 or a.queue like '!%' then 'queue must have 1 to 63 bytes and not begin with "!"'
                when hudhud.lane_number(a.lane) is null and a.lane is not null then 'lane must be critical, high, normal or bulk'
                when a.max_attempts not between 1 and 32767 then 'max_attempts must be 1 to 32767'
                when a.start !~ '^(now|beginning|[0-9]{1,18})$' then 'start must be now, beginning or a position'
                when s.event_type <> a.event_type
                    then format('it is there already, for %s; give the one for %s another name', s.event_type, a.event_type)
            end as problem
            from jsonb_to_recordset(subscriptions) as a(
                name text, event_type text, queue text, lane text, max_attempts integer, start text)
            left join hudhud.subscription s on s.name = a.name
        ) checked where checked.problem is not null limit 1;
    end if;
    if problem is not null then
        raise exception using errcode = 'HH011', message = format('The announcement was refused: %s.', problem);
    end if;
end $$;
