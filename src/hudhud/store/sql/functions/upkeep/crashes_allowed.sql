-- How many crashes in a lease of its own a job may have before it is dead: by its type, else by the settings.
-- Called by: rescue.
create or replace function hudhud.crashes_allowed(job_id uuid)
returns integer language sql stable
set search_path = pg_catalog, pg_temp as $$
    select coalesce(t.max_crashes, s.max_crashes)
    from hudhud.setting s
    left join hudhud.job_all j on j.id = crashes_allowed.job_id
    left join hudhud.job_type t on t.type = j.type and t.version = j.version
$$;
