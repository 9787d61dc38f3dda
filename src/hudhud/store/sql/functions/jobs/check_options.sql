-- Refuse what no job may carry.
-- Parameters: the options; place: ' at position n' for a job of a batch.
-- Raises: HH001 with the option's name.
-- Called by: enqueue, enqueue_alike.
create or replace function hudhud.check_options(
    type text, version integer, tenant_id text, queue text, lane smallint, idempotency_key text, on_conflict text,
    available_at timestamptz, expires_at timestamptz, max_attempts integer, tags text[], traceparent text, correlation_id text,
    place text default '')
returns void language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp as $$
declare
    problem text := case
        when type is null or length(type) not between 1 and 200 then 'type must have 1 to 200 characters'
        when version is null or version not between 1 and 32767 then 'version must be 1 to 32767'
        when tenant_id is null or length(tenant_id) not between 1 and 200 then 'tenant_id must have 1 to 200 characters'
        when queue is null or octet_length(queue) not between 1 and 63 or queue like '!%'
            then 'queue must have 1 to 63 bytes and not begin with "!"'
        when lane is null then 'lane must be critical, high, normal or bulk'
        when length(idempotency_key) not between 1 and 500 then 'idempotency_key must have 1 to 500 characters'
        -- An index row holds no more.
        when octet_length(tenant_id) + octet_length(type) + octet_length(idempotency_key) > 2600
            then 'idempotency_key, type and tenant_id must have at most 2,600 bytes together'
        when on_conflict is null or on_conflict not in ('reject', 'return_existing', 'replace')
            then 'on_conflict must be reject, return_existing or replace'
        when not hudhud.is_instant(available_at) then 'available_at must lie in the years 1 to 9998'
        when not hudhud.is_instant(expires_at) then 'expires_at must lie in the years 1 to 9998'
        when max_attempts is null or max_attempts not between 1 and 32767 then 'max_attempts must be 1 to 32767'
        when cardinality(tags) > 20 or exists (select from unnest(tags) tag where tag is null or length(tag) not between 1 and 100)
            then 'tags must be at most 20 of 1 to 100 characters each'
        when length(traceparent) > 200 then 'traceparent must have at most 200 characters'
        when length(correlation_id) > 200 then 'correlation_id must have at most 200 characters'
    end;
begin
    if problem is not null then
        raise exception using errcode = 'HH001', message = format('The job%s was refused: %s.', place, problem);
    end if;
end $$;
