-- A page of events, newest first, without their payloads.
-- Parameters: tenant_id (null: all tenants, for operators); type, aggregate_type, aggregate_id, correlation_id (null: any); after
--   (null: from the newest; else only events older than this id); rows_max; scan_max events are looked at.
-- Returns: rows, then next: the id to go on after, null at the end; a row without an id when there is nothing here but more to look
--   through.
with
source as not materialized (
    select event.* from hudhud.event where %(after)s::uuid is null or event.id < %(after)s::uuid
),
found as materialized (
    select
        seen.id, seen.type, seen.version, seen.tenant_id, seen.aggregate_type || ' ' || seen.aggregate_id as aggregate,
        seen.sequence, seen.position, seen.occurred_at, seen.correlation_id, seen.causation_id
    from (select source.* from source order by source.id desc limit %(scan_max)s) seen
    where (%(tenant_id)s::text is null or seen.tenant_id = %(tenant_id)s::text)
      and (%(type)s::text is null or seen.type = %(type)s::text)
      and (%(aggregate_type)s::text is null or seen.aggregate_type = %(aggregate_type)s::text)
      and (%(aggregate_id)s::text is null or seen.aggregate_id = %(aggregate_id)s::text)
      and (%(correlation_id)s::text is null or seen.correlation_id = %(correlation_id)s::text)
    order by seen.id desc
    limit %(rows_max)s
),
page as (
    select case
        when (select count(*) from found) = %(rows_max)s then (select found.id from found order by found.id limit 1)
        else (select source.id from source order by source.id desc offset %(scan_max)s - 1 limit 1)
    end as next
)
select found.*, page.next
from page
left join found on true
where found.id is not null or page.next is not null
order by found.id desc
