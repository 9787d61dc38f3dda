-- The server's processes that serve a session of somebody else.
select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid();
