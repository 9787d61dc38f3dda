-- Make the daily partitions of job, outcome, log, event and event_job, from yesterday to some days ahead.
-- Made apart and attached, because that does not stop enqueues as CREATE … PARTITION OF would.
-- Parameters: days ahead, 1 to 60.
-- Returns: tables made. Touches: the catalog. Called by: migrate, worker/maintainer.py.
create or replace function hudhud.make_partitions(days integer default 14)
returns integer language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    today date := (clock_timestamp() at time zone 'UTC')::date;
    day date;
    parent text;
    child text;
    made integer := 0;
begin
    -- One maker at a time; a second one finds the work done.
    perform pg_advisory_xact_lock(hashtext('hudhud.make_partitions'));
    for day in select today + n from generate_series(-1, days) n loop
        foreach parent in array array['job', 'outcome', 'log', 'event', 'event_job'] loop
            child := parent || '_' || to_char(day, 'YYYYMMDD');
            continue when to_regclass('hudhud.' || child) is not null
                or (parent not in ('event', 'event_job') and hudhud.first_id(day::timestamp at time zone 'UTC') < (select kept_below from hudhud.setting));
            execute format('create table hudhud.%I (like hudhud.%I including defaults including constraints including indexes)', child, parent);
            execute format('alter table hudhud.%I attach partition hudhud.%I for values from (%L) to (%L)', parent, child,
                hudhud.first_id(day::timestamp at time zone 'UTC'), hudhud.first_id((day + 1)::timestamp at time zone 'UTC'));
            made := made + 1;
        end loop;
    end loop;
    return made;
end $$;
