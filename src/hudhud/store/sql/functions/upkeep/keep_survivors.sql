-- Copy what is still needed of a day: jobs that have not ended, and jobs whose retention, counted from their end, still runs.
-- Can be repeated: what was copied stays.
-- Returns: jobs copied. Touches: job_kept, outcome_kept, log_kept. Called by: store/partitions.py between close_day and the drop.
create or replace function hudhud.keep_survivors(day date)
returns integer language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    lowest uuid := hudhud.first_id(day::timestamp at time zone 'UTC');
    beyond uuid := hudhud.first_id((day + 1)::timestamp at time zone 'UTC');
    survivors uuid[];
begin
    select array_agg(j.id) into survivors
    from hudhud.job j
    left join lateral (
        select o.outcome, o.finished_at from hudhud.outcome_all o
        where o.job_id = j.id and o.outcome in ('succeed', 'fail', 'cancel') limit 1) ended on true
    where j.id >= lowest and j.id < beyond
      and (ended.outcome is null or ended.finished_at + hudhud.retention(ended.outcome) > hudhud.clock());

    insert into hudhud.job_kept select j.* from hudhud.job j
    where j.id = any (survivors) and j.id >= lowest and j.id < beyond on conflict do nothing;
    insert into hudhud.outcome_kept select o.* from hudhud.outcome o
    where o.job_id = any (survivors) and o.job_id >= lowest and o.job_id < beyond on conflict do nothing;
    insert into hudhud.log_kept select l.job_id, l.run, l.line, l.at, l.level, l.message, l.progress from hudhud.log l
    where l.job_id = any (survivors) and l.job_id >= lowest and l.job_id < beyond
      and not exists (select from hudhud.log_kept k where k.job_id = l.job_id and k.line = l.line);
    return coalesce(cardinality(survivors), 0);
end $$;
