-- A field's name as a step of a JSON path: quoted if it would be misread otherwise. domain/payload.py does the same.
-- Called by: payload_problem.
create or replace function hudhud.json_step(name text)
returns text language sql immutable parallel safe
return case when name ~ '^[^\u0001-\u0020\u007f".\[\]\\]+$' then name else to_json(name)::text end;
