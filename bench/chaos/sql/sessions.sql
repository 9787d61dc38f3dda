-- Sessions of workers, those that are at something first.
select pid, application_name from pg_stat_activity
where datname = current_database() and application_name like 'hudhud %'
order by state = 'idle', application_name, pid;
