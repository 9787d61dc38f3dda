-- Partitions for the days before those that a fresh schema has, so that the tables look as they do after weeks of use.
-- Placeholder: how many days back.
do $$
declare
    day date;
    parent text;
    child text;
begin
    foreach parent in array array['job', 'outcome', 'log', 'event', 'event_job'] loop
        for day in select (now() at time zone 'UTC')::date - n
                   from generate_series(2, case when parent like 'event%' then least({days}, 7) else {days} end) n loop
            child := parent || '_' || to_char(day, 'YYYYMMDD');
            execute format('create table hudhud.%I partition of hudhud.%I for values from (%L) to (%L)', child, parent,
                hudhud.first_id(day::timestamp at time zone 'UTC'), hudhud.first_id((day + 1)::timestamp at time zone 'UTC'));
        end loop;
    end loop;
    -- Else the first worker would drop those days at once.
    update hudhud.setting set keep_succeeded = '60 days', keep_cancelled = '60 days', keep_dead = '60 days';
end $$;
