-- Delete, in bounded batches, what no partition drop takes away: kept jobs whose retention is over, keys that ran out or whose
--   job is gone, requests to cancel jobs that have ended, workers not seen for a day.
-- Parameters: max_rows per kind.
-- Returns: rows deleted; call again while it is at least max_rows.
-- Touches: job_kept, outcome_kept, log_kept, idempotency, cancel_request, worker. Called by: worker/maintainer.py.
create or replace function hudhud.prune(max_rows integer default 1000)
returns integer language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    gone uuid[];
    amount integer;
    total integer := 0;
begin
    select array_agg(k.id) into gone from (
        select k.id from hudhud.job_kept k
        join hudhud.outcome_kept o on o.job_id = k.id and o.outcome in ('succeed', 'fail', 'cancel')
        where o.finished_at + hudhud.retention(o.outcome) <= hudhud.clock()
        order by k.id limit max_rows for update of k skip locked) k;
    delete from hudhud.log_kept l where l.job_id = any (gone);
    delete from hudhud.outcome_kept o where o.job_id = any (gone);
    delete from hudhud.job_kept k where k.id = any (gone);
    total := total + coalesce(cardinality(gone), 0);

    delete from hudhud.idempotency k
    where k.expires_at <= hudhud.clock() and k.expires_at < 'infinity'
      and k.key in (select x.key from hudhud.idempotency x where x.expires_at <= hudhud.clock() and x.expires_at < 'infinity' limit max_rows);
    get diagnostics amount = row_count;
    total := total + amount;

    delete from hudhud.idempotency k
    where k.use = 'enqueue' and k.job_id < (select s.kept_below from hudhud.setting s)
      and k.job_id in (
          select x.job_id from hudhud.idempotency x
          where x.use = 'enqueue' and x.job_id < (select s.kept_below from hudhud.setting s)
            and not exists (select from hudhud.job_all j where j.id = x.job_id)
          order by x.job_id limit max_rows);
    get diagnostics amount = row_count;
    total := total + amount;

    delete from hudhud.cancel_request c
    where c.job_id in (
        select x.job_id from hudhud.cancel_request x
        where not exists (select from hudhud.job_all j where j.id = x.job_id)
           or exists (select from hudhud.outcome_all o where o.job_id = x.job_id and o.outcome in ('succeed', 'fail', 'cancel'))
        limit max_rows);
    get diagnostics amount = row_count;
    total := total + amount;

    delete from hudhud.worker w where w.seen_at < hudhud.clock() - interval '1 day';
    get diagnostics amount = row_count;
    return total + amount;
end $$;
