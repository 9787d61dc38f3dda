-- Whether a document of at most 1,000 bytes is surely readable everywhere: no deep nesting, no long digits.
-- Below 200 bytes there is no room for either, and so nobody asks. 255 is the most that a regular expression may repeat.
-- Called by: enqueue, enqueue_alike, publish.
create or replace function hudhud.is_readable(doc jsonb)
returns boolean language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp as $$
begin
    return octet_length(doc::text) <= 1000 and doc::text !~ '[0-9]{255}' and not doc @? 'strict $.**{100}';
end $$;
