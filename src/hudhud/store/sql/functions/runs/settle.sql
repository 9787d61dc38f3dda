-- Record a run's success inside the handler's own transaction, before its other writes.
-- The lease row stays locked until that transaction ends, so nobody can rescue the run meanwhile.
-- Parameters: idle_seconds: the transaction is ended by the server after so long without a statement, because a process that
--   is frozen or cut off in it would keep its neighbours' lease from being rescued.
-- Returns: false when the lease is lost or the run has ended: the caller must roll back.
-- Touches: lease (lock), outcome, outcome_kept. Called by: worker/transaction.py for ctx.transaction().
create or replace function hudhud.settle(
    lease_id uuid, place integer, result jsonb default null, idle_seconds double precision default 60)
returns boolean language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    held record;
begin
    -- The first two are for whoever looks at the server's sessions, and for end_transaction.
    select set_config('application_name', format('hudhud run %s:%s', lease_id, place), true),
           set_config('idle_in_transaction_session_timeout', ceil(greatest(idle_seconds, 1) * 1000)::bigint::text, true),
           l.job_ids[place] as job_id, l.runs[place] as run, l.attempts[place] as attempt, l.shard, l.worker_id, l.claimed_at
    into held
    from hudhud.lease l where l.id = settle.lease_id for key share;
    if not found or held.job_id is null then
        return false;
    end if;
    -- The mark is read with the lease in hand, as in finish. Written here and not by write_end: it is nearly always this.
    insert into hudhud.outcome (job_id, run, shard, attempt, worker_id, claimed_at, finished_at, outcome, result)
    select held.job_id, held.run, held.shard, held.attempt, held.worker_id, held.claimed_at, hudhud.clock(), 'succeed', settle.result
    from hudhud.setting s where held.job_id >= s.kept_below
    on conflict do nothing;
    if found then
        return true;
    end if;
    perform from hudhud.setting s where held.job_id < s.kept_below;
    if not found then
        return false;
    end if;
    -- As in finish: a job of a closed day needs the lease for itself alone.
    perform from hudhud.lease l where l.id = settle.lease_id for update;
    return found and hudhud.write_end(
        held.job_id, held.run, held.attempt, held.worker_id, held.claimed_at, hudhud.clock(), 'succeed', result => settle.result);
end $$;
