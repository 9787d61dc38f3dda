-- Come by a failpoint: a named place between two steps of one function. It does nothing; a test replaces this function by one
--   that waits, raises or ends the session, which only the schema's owner can do. Names: hudhud/failpoint.py.
-- Called by: publish, relay.
create or replace function hudhud.reach(point text)
returns void language sql volatile parallel safe
return null;
