-- What of a document no worker could read back: PostgreSQL keeps it, other readers do not.
-- Returns: words for the first such part, null when there is none.
-- Called by: refuse_payload, refuse_event.
create or replace function hudhud.unreadable_part(doc jsonb)
returns text language sql immutable parallel safe
return case
    when doc @? 'strict $.**{100} ? (@.type() == "object" || @.type() == "array")' then 'is nested more than 100 levels deep'
    when doc::text ~ '[0-9]{255}' then (
        select case
                   when length(translate(n.digits, '-.', '')) > 1000 then 'holds a number of more than 1,000 digits'
                   else 'holds a fraction beyond 1.7e308'
               end
        from (select value::text as digits from jsonb_path_query(doc, 'strict $.** ? (@.type() == "number")') value) n
        where length(translate(n.digits, '-.', '')) > 1000
           or strpos(n.digits, '.') > 0 and abs(n.digits::numeric) > 1.7e308
        limit 1)
    end;
