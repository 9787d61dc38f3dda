-- Cancel a job: at once when it waits, by request when it runs.
-- Parameters: actor and reason for the audit; tenant_id: the caller's, null for an operator across tenants.
-- Returns: 'cancelled', or 'requested' when a worker runs it, or an effect of it is open: it ends cancelled if its handler
--   stops; success wins.
-- Raises: HH001 no actor, HH006 not there (or another tenant's), HH007 has ended.
-- Touches: ready, scheduled, waiting, outcome, cancel_request, audit. Locks: as take_place; then the lease against a rescue,
--   and against a finish by an advisory lock that no handler's transaction and no renewal knows (see settle_runs).
create or replace function hudhud.cancel(job_id uuid, actor text, reason text default null, tenant_id text default null)
returns text language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
declare
    owner text := hudhud.owner_of(job_id, tenant_id);
    answer text;
    holder record;
    is_held boolean;
begin
    perform hudhud.check_actor(actor);
    -- Again when a finish or a rescue moved the job from place to place while we looked.
    for pass in 1..10 loop
        if hudhud.has_open_effect(job_id) then
            -- Looked into by the next run, which sends nothing new and then ends cancelled.
            insert into hudhud.cancel_request as c (job_id, run, worker_id, requested_at, requested_by)
            select job_id, p.run, '00000000-0000-0000-0000-000000000000', hudhud.clock(), actor
            from (
                select r.run from hudhud.ready r where r.job_id = cancel.job_id
                union all select s.run from hudhud.scheduled s where s.job_id = cancel.job_id
                union all select w.run from hudhud.waiting w where w.job_id = cancel.job_id) p
            on conflict on constraint cancel_request_pkey do update set run = excluded.run, worker_id = excluded.worker_id;
            if found then
                answer := 'requested';
                exit;
            end if;
        elsif hudhud.end_unclaimed(job_id, null) then
            answer := 'cancelled';
            exit;
        end if;
        select l.id, l.worker_id, l.runs[array_position(l.job_ids, cancel.job_id)] as run into holder
        from hudhud.lease l where cancel.job_id = any (l.job_ids)
        order by run desc limit 1;
        -- First the lease, then the advisory lock, as a finish does. Whoever was ending that run has then done so.
        perform from hudhud.lease l where l.id = holder.id for key share;
        is_held := found;
        perform pg_advisory_xact_lock(hashtextextended('hudhud.cancel:' || holder.id, 0)) where is_held;
        if is_held and not exists (select from hudhud.outcome_all o where o.job_id = cancel.job_id and o.run >= holder.run) then
            insert into hudhud.cancel_request as c (job_id, run, worker_id, requested_at, requested_by)
            values (job_id, holder.run, holder.worker_id, hudhud.clock(), actor)
            on conflict on constraint cancel_request_pkey do update set run = excluded.run, worker_id = excluded.worker_id;
            answer := 'requested';
            exit;
        end if;
        exit when exists (
            select from hudhud.outcome_all o
            where o.job_id = cancel.job_id and o.outcome in ('succeed', 'fail', 'cancel'));
    end loop;
    if answer is null then
        raise exception using errcode = 'HH007', message = format('Job %s has ended; there is nothing to cancel.', job_id);
    end if;
    perform hudhud.write_audit(actor, 'job.cancel', owner, job_id::text, reason, jsonb_build_object('answer', answer));
    return answer;
end $$;
