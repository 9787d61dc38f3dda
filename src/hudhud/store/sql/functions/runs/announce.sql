-- Make job types known, so that every enqueue can check payloads, and free the jobs that were held for want of a worker.
-- Parameters: types: JSON array of {type, version, queue, lane, max_attempts, max_crashes, schema: {required: {name: types},
--   optional: {name: types}, open}}; types is one JSON type name, 'any', or a list of them.
-- Raises: HH001 for what no type can have. Touches: job_type, waiting, ready. Called by: worker/worker.py at start, `hudhud types`.
create or replace function hudhud.announce(types jsonb)
returns void language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
    perform hudhud.check_types(types);
    insert into hudhud.job_type as t (
        type, version, queue, lane, max_attempts, max_crashes, field_names, field_types, field_needed, is_open, guard, announced_at)
    select a.type, a.version, coalesce(a.queue, 'default'), coalesce(hudhud.lane_number(a.lane), 2),
           coalesce(a.max_attempts, 20), coalesce(a.max_crashes, s.max_crashes),
           coalesce(f.names, '{}'), coalesce(f.types, '{}'), coalesce(f.needed, '{}'),
           coalesce((a.schema ->> 'open')::boolean, true), hudhud.payload_guard(f.names, f.types, f.needed), hudhud.clock()
    from hudhud.setting s, jsonb_to_recordset(announce.types) as a(
        type text, version smallint, queue text, lane text, max_attempts smallint, max_crashes smallint, schema jsonb)
    left join lateral (
        select array_agg(f.key order by f.key) as names,
               array_agg('|' || array_to_string(hudhud.json_texts(f.value), '|') || '|' order by f.key) as types,
               array_agg(f.is_needed order by f.key) as needed
        from (select key, value, true as is_needed from jsonb_each(a.schema -> 'required')
              union all
              select key, value, false from jsonb_each(a.schema -> 'optional')) f
    ) f on true
    order by a.type, a.version
    on conflict (type, version) do update
    set (queue, lane, max_attempts, max_crashes, field_names, field_types, field_needed, is_open, guard, announced_at) =
        (excluded.queue, excluded.lane, excluded.max_attempts, excluded.max_crashes, excluded.field_names,
         excluded.field_types, excluded.field_needed, excluded.is_open, excluded.guard, excluded.announced_at);
    perform hudhud.free_held(array(
        select (a ->> 'type') || ':' || coalesce(a ->> 'version', '1') from jsonb_array_elements(announce.types) a));
end $$;
