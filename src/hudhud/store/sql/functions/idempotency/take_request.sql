-- Take the key of an HTTP request until this transaction ends, or find out what the request was answered.
-- Nobody waits here: whoever meets the same request in progress is told so. However this transaction ends, the key is free
--   again; only keep_answer, in the same transaction as the work, makes it last.
-- Parameters: the caller's tenant; the key; fingerprint: of everything that makes the request another one.
-- Returns: one row. state: 'new' (do the work, then keep_answer), 'in_progress' (another transaction is at it), 'other' (the
--   key was used for another request) or 'answered'. answer: for the last, what keep_answer was given, as JSON text.
-- Raises: HH001 for a key of a wrong length.
-- Touches: idempotency: an answer whose time is over goes. Locks: an advisory one per key, tried and never waited for.
-- Called by: web/idempotency.py.
create or replace function hudhud.take_request(
    tenant_id text, key text, fingerprint bytea, out state text, out answer text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
    kept record;
begin
    if not coalesce(length(take_request.key) between 1 and 500 and length(take_request.tenant_id) between 1 and 200, false) then
        raise exception using errcode = 'HH001', message = 'The key of a request must have 1 to 500 characters.';
    end if;
    if not pg_try_advisory_xact_lock(
        hashtextextended('hudhud.request:' || take_request.key, hashtextextended(take_request.tenant_id, 0))) then
        state := 'in_progress';
        return;
    end if;
    -- Looked for under the lock: whoever had the key before has committed, and what that kept is seen.
    select k.fingerprint, k.answer::text as answer, k.expires_at > hudhud.clock() as holds into kept
    from hudhud.idempotency k
    where k.tenant_id = take_request.tenant_id and k.use = 'http' and k.type = '' and k.key = take_request.key and k.shard = 0;
    if kept.holds then
        state := case when kept.fingerprint = take_request.fingerprint then 'answered' else 'other' end;
        answer := case state when 'answered' then kept.answer end;
        return;
    end if;
    if found then
        delete from hudhud.idempotency k
        where k.tenant_id = take_request.tenant_id and k.use = 'http' and k.type = '' and k.key = take_request.key
          and k.shard = 0;
    end if;
    state := 'new';
end $$;
