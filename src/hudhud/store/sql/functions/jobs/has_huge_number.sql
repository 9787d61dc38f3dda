-- Whether a number of more than 1,000 digits stands anywhere in a document.
-- Called by: refuse_payload.
create or replace function hudhud.has_huge_number(doc jsonb)
returns boolean language sql immutable parallel safe
return exists (
    select from jsonb_path_query(doc, 'strict $.**') value
    where jsonb_typeof(value) = 'number' and length(translate(value::text, '-.', '')) > 1000);
