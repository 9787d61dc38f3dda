-- Record a run's success inside the handler's own transaction, before its other writes.
-- The lease row stays locked until that transaction ends, so nobody can rescue the run meanwhile.
-- Parameters: idle_seconds: the transaction is ended by the server after so long without a statement, because a process that
--   is frozen or cut off in it would keep its neighbours' lease from being rescued.
-- Returns: false when the lease is lost or the run has ended: the caller must roll back.
-- Touches: lease (lock), outcome. Called by: worker/context.py for ctx.transaction().
create or replace function hudhud.settle(
    lease_id uuid, place integer, result jsonb default null, idle_seconds double precision default 60)
returns boolean language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    held hudhud.lease%rowtype;
    kept_below uuid;
begin
    -- For whoever looks at the server's sessions, and for end_transaction.
    perform set_config('application_name', format('hudhud run %s:%s', lease_id, place), true);
    perform set_config('idle_in_transaction_session_timeout', ceil(greatest(idle_seconds, 1) * 1000)::bigint::text, true);
    select * into held from hudhud.lease l where l.id = settle.lease_id for key share;
    if not found or held.job_ids[place] is null then
        return false;
    end if;
    -- As in finish: a job of a closed day needs the lease for itself alone.
    select s.kept_below into kept_below from hudhud.setting s;
    if held.job_ids[place] < kept_below then
        perform from hudhud.lease l where l.id = settle.lease_id for update;
        if not found then
            return false;
        end if;
    end if;
    return hudhud.write_end(
        held.job_ids[place], held.runs[place], held.attempts[place], held.worker_id, held.claimed_at, hudhud.clock(),
        'succeed', result => settle.result, kept_below => kept_below);
end $$;
