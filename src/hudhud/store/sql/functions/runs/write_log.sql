-- Keep lines and progress that a handler wrote about its run.
-- Parameters: lines: JSON array of {level, message, progress (0 to 1) or null}.
-- Touches: log or log_kept. Called by: worker/context.py.
create or replace function hudhud.write_log(job_id uuid, run integer, lines jsonb)
returns void language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    -- An id of our own before the look at the mark, so that whoever drops the day waits for us.
    perform pg_current_xact_id();
    if job_id >= (select kept_below from hudhud.setting) then
        insert into hudhud.log (job_id, run, at, level, message, progress)
        select job_id, run, hudhud.clock(), l.level, left(l.message, 2000), l.progress
        from jsonb_to_recordset(lines) l(level text, message text, progress real);
    else
        insert into hudhud.log_kept (job_id, run, line, at, level, message, progress)
        select job_id, run, nextval('hudhud.log_line_seq'), hudhud.clock(), l.level, left(l.message, 2000), l.progress
        from jsonb_to_recordset(lines) l(level text, message text, progress real);
    end if;
end $$;
