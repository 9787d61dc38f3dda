-- Cancel a job: at once when it waits, by request when it runs.
-- Parameters: actor and reason for the audit; tenant_id: the caller's, null for an operator across tenants.
-- Returns: 'cancelled', or 'requested' when a worker runs it: it ends cancelled if its handler stops, success wins.
-- Raises: HH006 not there (or another tenant's), HH007 has ended.
-- Touches: ready, scheduled, waiting, outcome, cancel_request, audit.
create or replace function hudhud.cancel(job_id uuid, actor text, reason text default null, tenant_id text default null)
returns text language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    owner text := hudhud.owner_of(job_id, tenant_id);
    answer text := 'cancelled';
    holder record;
begin
    if not hudhud.end_unclaimed(job_id, null) then
        select l.worker_id, l.runs[array_position(l.job_ids, cancel.job_id)] as run into holder
        from hudhud.lease l
        where cancel.job_id = any (l.job_ids)
          and not exists (
              select from hudhud.outcome_all o
              where o.job_id = cancel.job_id and o.run >= l.runs[array_position(l.job_ids, cancel.job_id)])
        order by l.claimed_at desc limit 1;
        if not found then
            raise exception using errcode = 'HH007', message = format('Job %s has ended; there is nothing to cancel.', job_id);
        end if;
        insert into hudhud.cancel_request as c (job_id, run, worker_id, requested_at, requested_by)
        values (job_id, holder.run, holder.worker_id, hudhud.clock(), actor)
        on conflict on constraint cancel_request_pkey do update set run = excluded.run, worker_id = excluded.worker_id;
        answer := 'requested';
    end if;
    perform hudhud.write_audit(actor, 'job.cancel', owner, job_id::text, reason, jsonb_build_object('answer', answer));
    return answer;
end $$;
