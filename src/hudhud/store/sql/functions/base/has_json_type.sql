-- Whether a value has one of the JSON types listed as '|string|null|'; 'integer' is a number without a fraction.
create or replace function hudhud.has_json_type(value jsonb, types text)
returns boolean language sql immutable parallel safe
return types = '|any|'
    or strpos(types, '|' || jsonb_typeof(value) || '|') > 0
    or (jsonb_typeof(value) = 'number' and strpos(types, '|integer|') > 0
        and case when jsonb_typeof(value) = 'number' then scale(trim_scale(value::numeric)) = 0 end);
