-- Refuse what no event may carry.
-- Raises: HH011 with the option's name.
-- Called by: publish.
create or replace function hudhud.check_event(
    type text, version integer, tenant_id text, aggregate_type text, aggregate_id text, occurred_at timestamptz,
    correlation_id text, traceparent text)
returns void language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp as $$
declare
    problem text := case
        when type is null or length(type) not between 1 and 200 then 'type must have 1 to 200 characters'
        when version is null or version not between 1 and 32767 then 'version must be 1 to 32767'
        when tenant_id is null or length(tenant_id) not between 1 and 200 then 'tenant_id must have 1 to 200 characters'
        when num_nulls(aggregate_type, aggregate_id) = 1 then 'an aggregate needs both aggregate_type and aggregate_id'
        when length(aggregate_type) not between 1 and 200 then 'aggregate_type must have 1 to 200 characters'
        when length(aggregate_id) not between 1 and 200 then 'aggregate_id must have 1 to 200 characters'
        when not hudhud.is_instant(occurred_at) then 'occurred_at must lie in the years 1 to 9998'
        when length(correlation_id) not between 1 and 200 then 'correlation_id must have 1 to 200 characters'
        when length(traceparent) > 200 then 'traceparent must have at most 200 characters'
    end;
begin
    if problem is not null then
        raise exception using errcode = 'HH011', message = format('The event was refused: %s.', problem);
    end if;
end $$;
