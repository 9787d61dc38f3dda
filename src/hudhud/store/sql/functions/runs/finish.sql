-- End runs of this worker's leases. Inserting the outcome of (job, run) under the lease is the fence: without the lease, or
-- when that run has ended already, the outcome is dropped and counted, never written.
-- Parameters: leases and closes, of one length: a lease that closes is deleted, and whatever of it is neither named below
--   nor ended before has succeeded. part_leases and part_positions: runs that succeeded in leases that stay open.
--   settlements: a JSON array of every other end, see settle_runs. whole: leases of which every run succeeded and none
--   was ended before; named here and not in leases.
-- Returns: settled = outcomes written; lost_leases = leases that are no longer held; refused = settlements and parts dropped.
-- Touches: lease, outcome, outcome_kept, and what settle_runs touches. Locks: lease rows in id order, those that
--   close and those with jobs of a closed day for itself alone.
-- Called by: worker/finisher.py.
create or replace function hudhud.finish(
    leases uuid[], closes boolean[], part_leases uuid[] default '{}', part_positions integer[] default '{}',
    settlements jsonb default null, whole uuid[] default '{}',
    out settled integer, out lost_leases uuid[], out refused integer)
language plpgsql security definer
-- A handler's transaction may hold a lease or a fence that is not to be waited for without end.
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan
set lock_timeout = '3s' as $$
declare
    now timestamptz := hudhud.clock();
    kept_below uuid;
    held uuid[];
    ended integer := 0;
    succeeded integer;
    parts integer;
begin
    settled := 0;
    lost_leases := '{}';
    refused := 0;
    if cardinality(whole) > 0 then
        select c.settled, c.held into settled, held from hudhud.close_leases(whole, now) c;
        if cardinality(held) < cardinality(whole) then
            lost_leases := array(select id from unnest(whole) id where id <> all (held));
        end if;
    end if;
    if cardinality(leases) = 0 then
        return;
    end if;

    -- What closes is locked for its end at once: to lock more later, while another finish of the same lease shares it, deadlocks.
    perform from hudhud.lease l
    where l.id = any (array(select c.id from unnest(leases, closes) c(id, does_close) where c.does_close)) order by l.id for update;
    select coalesce(array_agg(l.id), '{}') into held
    from (select l.id from hudhud.lease l where l.id = any (leases) order by l.id for key share) l;
    lost_leases := lost_leases || array(select id from unnest(leases) id where id <> all (held));
    -- Only now: who had a lease before us may have read an older mark, and has ended.
    select s.kept_below into kept_below from hudhud.setting s;
    -- Who shares a lease with us may have written its ends into the partition of a day that is closed by now.
    perform from hudhud.lease l where l.id = any (held) and kept_below > any (l.job_ids) order by l.id for update;

    if settlements is not null then
        ended := hudhud.settle_runs(held, settlements, now, kept_below);
    end if;

    with open_part as (
        select l.job_ids[p.n] as job_id, l.runs[p.n] as run, l.attempts[p.n] as attempt, l.shard, l.worker_id, l.claimed_at
        from unnest(part_leases, part_positions) p(lease_id, n)
        join hudhud.lease l on l.id = p.lease_id
        where l.id = any (held)
    ), closed as (
        delete from hudhud.lease l
        where l.id = any (array(select c.id from unnest(leases, closes) c(id, does_close) where c.does_close))
        returning l.*
    ), run as (
        select * from open_part
        union all
        select r.job_id, r.run, r.attempt, c.shard, c.worker_id, c.claimed_at
        from closed c, unnest(c.job_ids, c.runs, c.attempts) r(job_id, run, attempt)
    ), written as (
        insert into hudhud.outcome (job_id, run, shard, attempt, worker_id, claimed_at, finished_at, outcome)
        select r.job_id, r.run, r.shard, r.attempt, r.worker_id, r.claimed_at, now, 'succeed'
        from run r where r.job_id >= kept_below
        on conflict do nothing
        returning job_id, run
    ), written_kept as (
        insert into hudhud.outcome_kept (job_id, run, shard, attempt, worker_id, claimed_at, finished_at, outcome)
        select r.job_id, r.run, r.shard, r.attempt, r.worker_id, r.claimed_at, now, 'succeed'
        from run r
        where r.job_id < kept_below
          and not hudhud.has_ended(r.job_id, r.run)
        on conflict do nothing
        returning job_id, run
    )
    select count(*), count(*) filter (where exists (select from open_part p where p.job_id = w.job_id and p.run = w.run))
    into succeeded, parts
    from (select * from written union all select * from written_kept) w;

    refused := coalesce(jsonb_array_length(settlements), 0) - ended + cardinality(part_leases) - parts;
    settled := settled + ended + succeeded;
end $$;
