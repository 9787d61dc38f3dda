-- Close leases of which every run has succeeded and none was ended before: nearly all there are.
-- A plain insert, because ON CONFLICT was measured to cost a fifth of a job's whole server time; were a run ended already, its
-- key refuses the statement and the caller goes the general way.
-- Returns: settled = outcomes written; held = the leases that were still there.
-- Touches: lease, outcome; outcome_kept for jobs whose day is closed. Locks: the lease rows, in id order. Called by: finish.
create or replace function hudhud.close_leases(leases uuid[], now timestamptz, out settled integer, out held uuid[])
language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    kept_below uuid;
begin
    perform from hudhud.lease l where l.id = any (leases) order by l.id for update;
    -- Only now: who had a lease before us may have read an older mark, and has ended.
    select s.kept_below into kept_below from hudhud.setting s;
    with closed as (
        delete from hudhud.lease l where l.id = any (leases)
        returning l.id, l.shard, l.worker_id, l.claimed_at, l.job_ids, l.runs, l.attempts
    ), run as (
        select r.job_id, r.run, r.attempt, c.shard, c.worker_id, c.claimed_at
        from closed c, unnest(c.job_ids, c.runs, c.attempts) r(job_id, run, attempt)
    ), written as (
        insert into hudhud.outcome (job_id, run, shard, attempt, worker_id, claimed_at, finished_at, outcome)
        select r.job_id, r.run, r.shard, r.attempt, r.worker_id, r.claimed_at, now, 'succeed'
        from run r where r.job_id >= kept_below
    ), written_kept as (
        insert into hudhud.outcome_kept (job_id, run, shard, attempt, worker_id, claimed_at, finished_at, outcome)
        select r.job_id, r.run, r.shard, r.attempt, r.worker_id, r.claimed_at, now, 'succeed'
        from run r, lateral (
            select from (values (1)) as once
            -- A run that has ended in the day's partition comes twice, so that the key refuses it here as well.
            union all select from hudhud.outcome o where o.job_id = r.job_id and o.run = r.run) as time
        where r.job_id < kept_below
    )
    select coalesce(sum(cardinality(c.job_ids)), 0), coalesce(array_agg(c.id), '{}') into settled, held from closed c;
end $$;
