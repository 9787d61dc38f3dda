-- Take back what was claimed under leases that ran out. Whatever of them has no outcome yet ends its run as lost and is ready
--   again at once as a suspect. A crash counts only in a lease of one. Suspects that were lost together keep their attempt and
--   must be alone the next time. So neighbours of a poison job lose one attempt, and the poison job itself ends dead as
--   worker_lost after max_crashes or its last attempt.
-- Parameters: max_leases per call.
-- Returns: one row: jobs made ready again, jobs that ended (dead, or cancelled on request).
-- Touches: lease, outcome, ready, cancel_request (read). Locks: lease rows by age, skipping locked ones: a lease that a finish
--   or a handler's transaction holds is left to it. Called by: worker/maintainer.py, any number at once.
create or replace function hudhud.rescue(max_leases integer default 20, shard integer default 0, out rescued integer, out dead integer)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    now timestamptz := hudhud.clock();
    lost record;
    decided record;
begin
    rescued := 0;
    dead := 0;
    for lost in
        with gone as (
            delete from hudhud.lease l
            where l.ctid = any (array(
                select x.ctid from hudhud.lease x
                where x.shard = rescue.shard and x.locked_until <= now
                order by x.locked_until
                limit max_leases for update skip locked))
              and l.locked_until <= now
            returning l.*
        )
        select r.job_id, r.run, r.attempt, g.worker_id, g.claimed_at,
               (r.attempt - (g.is_suspect and cardinality(g.job_ids) > 1)::integer)::smallint as burnt,
               (r.crashes + (cardinality(g.job_ids) = 1)::integer)::smallint as crashes,
               case when g.is_suspect or cardinality(g.job_ids) = 1 then -1 else 0 end::smallint as line
        from gone g, unnest(g.job_ids, g.runs, g.attempts, g.crashes) r(job_id, run, attempt, crashes)
        where not hudhud.has_ended(r.job_id, r.run)
        order by r.job_id
    loop
        select * into decided from hudhud.decide_end(
            lost.job_id, 'lost', 'worker_lost', null, lost.burnt, null, null, now);
        if decided.outcome = 'lost' and lost.crashes >= hudhud.crashes_allowed(lost.job_id) then
            decided.outcome := 'fail';
        end if;
        continue when not hudhud.write_end(
            lost.job_id, lost.run, lost.attempt, lost.worker_id, lost.claimed_at, now, decided.outcome, decided.code);
        if decided.outcome = 'lost' then
            perform hudhud.put_back(
                lost.job_id, lost.run + 1, lost.burnt, lost.crashes, lost.line, '-infinity');
            rescued := rescued + 1;
        else
            dead := dead + 1;
        end if;
    end loop;
end $$;
