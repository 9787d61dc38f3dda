-- A JSON array of texts, or one JSON text, as text[]; null stays null.
create or replace function hudhud.json_texts(list jsonb)
returns text[] language sql immutable parallel safe
return case jsonb_typeof(list)
    when 'array' then array(select jsonb_array_elements_text(list))
    when 'string' then array[list #>> '{}']
end;
