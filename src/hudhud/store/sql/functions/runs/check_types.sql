-- Refuse an announcement by which every enqueue of a type would be refused, or go where nobody meant it to.
-- Parameters: types as announce takes them.
-- Raises: HH001 with the position and what is wrong. Called by: announce.
create or replace function hudhud.check_types(types jsonb)
returns void language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select * into wrong from (
        select a.n, case
            when a.type is null or length(a.type) not between 1 and 200 then 'type must have 1 to 200 characters'
            when a.version is null or a.version not between 1 and 32767 then 'version must be 1 to 32767'
            when octet_length(a.queue) not between 1 and 63 or a.queue like '!%' then 'queue must have 1 to 63 bytes and not begin with "!"'
            when hudhud.lane_number(a.lane) is null and a.lane is not null then 'lane must be critical, high, normal or bulk'
            when a.max_attempts not between 1 and 32767 then 'max_attempts must be 1 to 32767'
            when a.max_crashes not between 1 and 32767 then 'max_crashes must be 1 to 32767'
            else (
                select format('$.%s must have a JSON type, any, or a list of them', f.key)
                from (select * from jsonb_each(a.schema -> 'required') union all select * from jsonb_each(a.schema -> 'optional')) f
                where not coalesce(hudhud.json_texts(f.value) <@ array['string', 'number', 'integer', 'boolean', 'object', 'array', 'null', 'any']
                                   and cardinality(hudhud.json_texts(f.value)) > 0, false)
                limit 1)
        end as problem
        from rows from (jsonb_to_recordset(types) as (
            type text, version integer, queue text, lane text, max_attempts integer, max_crashes integer, schema jsonb))
            with ordinality as a(type, version, queue, lane, max_attempts, max_crashes, schema, n)
    ) checked where problem is not null order by n limit 1;
    if wrong.problem is not null then
        raise exception using errcode = 'HH001', message = format('The type at position %s was refused: %s.', wrong.n, wrong.problem);
    end if;
end $$;
