-- End the session in which a run has its transaction open, because its handler cannot be stopped and the fence would be waited for.
-- It is found by the name that settle gives it for as long as that transaction lasts: behind a pooler no client knows its server
--   process, and one that has gone on to other work is not meant. Runs with the caller's rights: a role may end its own sessions.
-- Returns: sessions ended, 0 or 1. Called by: worker/finisher.py.
create or replace function hudhud.end_transaction(lease_id uuid, place integer)
returns integer language sql volatile
set search_path = pg_catalog, pg_temp as $$
    select count(pg_terminate_backend(a.pid))::integer
    from pg_stat_activity a
    where a.application_name = format('hudhud run %s:%s', end_transaction.lease_id, end_transaction.place)
$$;
