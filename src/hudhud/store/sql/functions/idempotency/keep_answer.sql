-- Keep what a request was answered, in the transaction that did its work: both are committed, or neither.
-- Parameters: as take_request, which this transaction has called; answer: a JSON object, given back as it is.
-- Touches: idempotency. Called by: web/idempotency.py.
create or replace function hudhud.keep_answer(tenant_id text, key text, fingerprint bytea, answer jsonb)
returns void language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
    insert into hudhud.idempotency (tenant_id, use, type, key, shard, created_at, expires_at, fingerprint, answer)
    select keep_answer.tenant_id, 'http', '', keep_answer.key, 0, c.now, c.now + s.keep_answers,
           keep_answer.fingerprint, keep_answer.answer
    from hudhud.setting s, (select hudhud.clock() as now) c;
end $$;
