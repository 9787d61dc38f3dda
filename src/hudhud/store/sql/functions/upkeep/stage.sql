-- Move due jobs to where a claim finds them, and give held jobs another chance with a worker that can run them.
-- Parameters: max_jobs per call, so that one call stays short.
-- Returns: jobs moved; call again while it equals max_jobs.
-- Touches: scheduled, ready, range_new, waiting. Locks: scheduled rows in due order, skipping locked ones.
-- Called by: worker/maintainer.py, any number at once.
create or replace function hudhud.stage(max_jobs integer default 1000, shard integer default 0)
returns integer language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    now timestamptz := hudhud.clock();
    amount integer;
    spots hudhud.spot[];
begin
    with due as (
        delete from hudhud.scheduled s
        where s.ctid = any (array(
            select x.ctid from hudhud.scheduled x
            where x.shard = stage.shard and x.available_at <= now
            order by x.available_at
            limit max_jobs for update skip locked))
        returning s.*
    ), moved as (
        insert into hudhud.ready (job_id, run, shard, line, lane, attempt, crashes, queue, tenant_id)
        select d.job_id, d.run, d.shard, case d.run when 1 then 2 else d.line end, d.lane, d.attempt, d.crashes, d.queue, d.tenant_id
        from due d
        order by d.available_at
        returning queue, lane, tenant_id
    )
    select sum(m.jobs)::integer, array_agg(row(stage.shard, m.queue, m.lane, m.tenant_id)::hudhud.spot)
    into amount, spots
    from (select queue, lane, tenant_id, count(*) as jobs from moved group by queue, lane, tenant_id) m;

    perform hudhud.register_range(s.shard, s.queue, s.lane, s.tenant_id) from unnest(spots) s;
    perform hudhud.wake(q.queue) from (select distinct s.queue from unnest(spots) s) q;
    return coalesce(amount, 0) + hudhud.free_held(array(
        select distinct c.contract
        from hudhud.waiting c
        join hudhud.worker w on c.contract = any (w.contracts) and w.seen_at > now - interval '30 seconds'
        where c.waits_for = 'hold' and c.since < now - interval '5 seconds'
        limit 100), now - interval '5 seconds');
end $$;
