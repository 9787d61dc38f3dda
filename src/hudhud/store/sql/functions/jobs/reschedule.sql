-- Let a job that waits for its time or for a worker become available at another instant.
-- Parameters: available_at: null for now. actor for the audit; tenant_id as in cancel.
-- Raises: HH001 no such instant, or one at which the job will have expired; HH006 not there; HH007 runs or has ended.
-- Touches: ready, scheduled, waiting, audit.
create or replace function hudhud.reschedule(
    job_id uuid, available_at timestamptz, actor text, reason text default null, tenant_id text default null)
returns void language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    owner text := hudhud.owner_of(job_id, tenant_id);
    place record;
begin
    if not hudhud.is_instant(available_at) then
        raise exception using errcode = 'HH001', message = 'available_at must lie in the years 1 to 9998.';
    end if;
    select * into place from hudhud.take_place(job_id);
    if place.run is null then
        raise exception using errcode = 'HH007',
            message = format('Job %s is running or has ended; only a waiting job can be rescheduled.', job_id);
    end if;
    if exists (select from hudhud.job_all j where j.id = job_id and j.expires_at <= available_at) then
        raise exception using errcode = 'HH001', message = 'available_at must lie before the time at which the job expires.';
    end if;
    perform hudhud.put_back(
        job_id, place.run, place.attempt, place.crashes,
        case when hudhud.is_suspect(job_id, place.run) then -1 else 1 end::smallint, coalesce(available_at, '-infinity'));
    perform hudhud.write_audit(
        actor, 'job.reschedule', owner, job_id::text, reason, jsonb_build_object('available_at', available_at));
end $$;
