-- From now on sessions are opened read-only, as on a server that is a standby; those of workers that are open end.
alter role hudhud set default_transaction_read_only = on;
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and application_name like 'hudhud %';
