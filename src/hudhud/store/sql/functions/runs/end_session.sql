-- End a session of this worker's own role, because a handler that cannot be stopped holds a fence in it.
-- Runs with the caller's rights: a role may end its own sessions and no others.
-- Returns: whether there was such a session. Called by: worker/finisher.py.
create or replace function hudhud.end_session(server_pid integer)
returns boolean language sql volatile
set search_path = pg_catalog, pg_temp as $$
    select pg_terminate_backend(end_session.server_pid)
$$;
