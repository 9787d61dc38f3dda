-- The contract of a payload as one JSON path predicate: the quick look of every enqueue. It is true of a payload whose fields
-- are there and of their types; what it is not true of, payload_problem looks at again.
-- Parameters: as job_type keeps them. Returns: null for a contract without fields.
-- Called by: announce, announce_events.
create or replace function hudhud.payload_guard(field_names text[], field_types text[], field_needed boolean[])
returns jsonpath language sql immutable parallel safe
set search_path = pg_catalog, pg_temp as $$
    select string_agg(
        '(' || case when f.is_needed then '' else format('!exists(%s) || ', f.place) end || case
            when f.types = '|any|' then format('exists(%s)', f.place)
            else (
                select string_agg(case kind
                    when 'integer' then format('(%s.type() == "number" && %s.floor() == %s)', f.place, f.place, f.place)
                    when 'any' then format('exists(%s)', f.place)
                    else format('%s.type() == "%s"', f.place, kind) end, ' || ')
                from unnest(string_to_array(trim(both '|' from f.types), '|')) kind)
            end || ')',
        ' && ')::jsonpath
    from (
        select '$.' || to_json(names.name)::text as place, types.types, needed.is_needed
        from unnest(field_names) with ordinality names(name, n)
        join unnest(field_types) with ordinality types(types, n) using (n)
        join unnest(field_needed) with ordinality needed(is_needed, n) using (n)
    ) f
$$;
