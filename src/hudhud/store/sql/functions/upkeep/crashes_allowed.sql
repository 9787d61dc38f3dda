-- How many crashes in a lease of its own a job may have before it is dead: by its type, else by the settings.
-- Called by: rescue.
create or replace function hudhud.crashes_allowed(job_id uuid)
returns integer language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
begin
    return coalesce(
        (select t.max_crashes from hudhud.job_all j join hudhud.job_type t on t.type = j.type and t.version = j.version
         where j.id = crashes_allowed.job_id),
        (select s.max_crashes from hudhud.setting s));
end $$;
