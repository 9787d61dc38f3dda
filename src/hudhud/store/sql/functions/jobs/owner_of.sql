-- The tenant of a job that the caller may see.
-- Raises: HH006 when there is none, or it is another tenant's: both look the same.
-- Called by: every verb that acts on one job.
create or replace function hudhud.owner_of(job_id uuid, tenant_id text)
returns text language plpgsql stable
set search_path = pg_catalog, pg_temp as $$
declare
    owner text := (select j.tenant_id from hudhud.job_all j
                   where j.id = owner_of.job_id and j.tenant_id = coalesce(owner_of.tenant_id, j.tenant_id));
begin
    if owner is null then
        raise exception using errcode = 'HH006', message = format('There is no job %s.', owner_of.job_id);
    end if;
    return owner;
end $$;
