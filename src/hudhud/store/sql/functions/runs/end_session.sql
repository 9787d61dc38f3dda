-- End a session of the caller's own role, as the death of its process would.
-- Runs with the caller's rights: a role may end its own sessions and no others.
-- Returns: whether there was such a session. Called by: testing/crash.py.
create or replace function hudhud.end_session(server_pid integer)
returns boolean language sql volatile
set search_path = pg_catalog, pg_temp as $$
    select pg_terminate_backend(end_session.server_pid)
$$;
