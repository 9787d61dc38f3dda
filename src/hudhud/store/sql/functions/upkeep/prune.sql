-- Delete, in bounded batches, what no partition drop takes away: kept jobs whose retention is over, keys that ran out or whose
--   job is gone, requests to cancel jobs that have ended, workers not seen for a day.
-- Parameters: max_rows per kind.
-- Returns: rows deleted; call again while it is at least max_rows.
-- Touches: job_kept, outcome_kept, log_kept, idempotency, cancel_request, worker. Locks: skips what anybody has. Called by: worker/maintainer.py.
create or replace function hudhud.prune(max_rows integer default 1000)
returns integer language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    now timestamptz := hudhud.clock();
    kept_below uuid := (select s.kept_below from hudhud.setting s);
    gone uuid[];
    amount integer;
    total integer := 0;
begin
    -- What is over per kind of end, by the index on it; then the rows themselves, skipping what another maintainer has.
    select array_agg(k.id) into gone from (
        select k.id from hudhud.job_kept k
        where k.id = any (array(
            select o.job_id
            from unnest(array['succeed', 'fail', 'cancel']) final(outcome), lateral (
                select o.job_id from hudhud.outcome_kept o
                where o.outcome = final.outcome and o.finished_at <= now - hudhud.retention(final.outcome)
                order by o.finished_at limit max_rows) o))
        order by k.id limit max_rows for update skip locked) k;
    delete from hudhud.log_kept l where l.job_id = any (gone);
    delete from hudhud.outcome_kept o where o.job_id = any (gone);
    delete from hudhud.job_kept k where k.id = any (gone);
    total := total + coalesce(cardinality(gone), 0);

    with over as materialized (
        select k.tenant_id, k.use, k.type, k.key, k.shard from hudhud.idempotency k
        where k.expires_at <= now and k.expires_at < 'infinity'
        order by k.expires_at limit max_rows for update skip locked)
    delete from hudhud.idempotency k using over
    where k.tenant_id = over.tenant_id and k.use = over.use and k.type = over.type and k.key = over.key and k.shard = over.shard;
    get diagnostics amount = row_count;
    total := total + amount;

    with over as materialized (
        select k.tenant_id, k.use, k.type, k.key, k.shard from hudhud.idempotency k
        where k.use = 'enqueue' and k.job_id < kept_below
          -- One look by key each (offset keeps it from becoming a join, which would read every job there is).
          and not exists (select from hudhud.job_all j where j.id = k.job_id offset 0)
        order by k.job_id limit max_rows for update skip locked)
    delete from hudhud.idempotency k using over
    where k.tenant_id = over.tenant_id and k.use = over.use and k.type = over.type and k.key = over.key and k.shard = over.shard;
    get diagnostics amount = row_count;
    total := total + amount;

    with over as materialized (
        select c.job_id from hudhud.cancel_request c
        where not exists (select from hudhud.job_all j where j.id = c.job_id offset 0)
           or exists (
               select from hudhud.outcome_all o
               where o.job_id = c.job_id and o.outcome in ('succeed', 'fail', 'cancel') offset 0)
        order by c.job_id limit max_rows for update skip locked)
    delete from hudhud.cancel_request c using over where c.job_id = over.job_id;
    get diagnostics amount = row_count;
    total := total + amount;

    delete from hudhud.worker w where w.seen_at < now - interval '1 day';
    get diagnostics amount = row_count;
    return total + amount;
end $$;
