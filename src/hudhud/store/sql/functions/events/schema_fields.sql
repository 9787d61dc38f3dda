-- A contract's fields as the tables of types keep them.
-- Parameters: schema: {required: {name: types}, optional: {name: types}}; types is one JSON type name, 'any', or a list of them.
-- Returns: one row of three arrays of one length, null for a contract without fields.
-- Called by: announce_events.
create or replace function hudhud.schema_fields(schema jsonb, out names text[], out types text[], out needed boolean[])
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp as $$
    select array_agg(f.key order by f.key),
           array_agg('|' || array_to_string(hudhud.json_texts(f.value), '|') || '|' order by f.key),
           array_agg(f.is_needed order by f.key)
    from (select key, value, true as is_needed from jsonb_each(schema -> 'required')
          union all
          select key, value, false from jsonb_each(schema -> 'optional')) f
$$;
