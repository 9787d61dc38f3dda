-- A consumer's inbox: take an event in, once, in the transaction that does what follows from it.
-- Waits for an open transaction that took in the same event, and never trusts one that may roll back.
-- Parameters: consumer: its name, 1 to 200 characters; event_id: of any event, also of another system's; the tenant.
-- Returns: true the first time: do the work now, and commit both; false ever after, for setting.keep_inbox at least.
-- Raises: HH001 for a name of a wrong length, or no event.
-- Touches: idempotency. Locks: the event's row, until the transaction ends: two transactions that take in the same events in
--   opposite order can deadlock.
create or replace function hudhud.take_in(consumer text, event_id uuid, tenant_id text default 'default')
returns boolean language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
    if not coalesce(length(consumer) between 1 and 200 and length(take_in.tenant_id) between 1 and 200, false) then
        raise exception using errcode = 'HH001', message = 'consumer and tenant_id must have 1 to 200 characters each.';
    elsif event_id is null then
        raise exception using errcode = 'HH001', message = 'event_id must name an event.';
    end if;
    insert into hudhud.idempotency (tenant_id, use, type, key, shard, created_at, expires_at)
    select take_in.tenant_id, 'inbox', consumer, event_id::text, hudhud.shard_of(event_id), c.now, c.now + s.keep_inbox
    from hudhud.setting s, (select hudhud.clock() as now) c
    on conflict do nothing;
    return found;
end $$;
