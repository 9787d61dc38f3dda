-- Whether a small document is surely readable everywhere: no deep nesting, no long digits, at little cost.
-- 255 is the most that a regular expression may repeat; nesting and digits need 200 bytes at least.
-- Called by: enqueue, enqueue_alike. One expression, which PostgreSQL inlines.
create or replace function hudhud.is_readable(doc jsonb)
returns boolean language sql immutable parallel safe
return octet_length(doc::text) <= 200
    or octet_length(doc::text) <= 1000 and doc::text !~ '[0-9]{255}' and not doc @? 'strict $.**{100}';
