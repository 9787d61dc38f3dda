-- How far one event has come: per subscription of its type, whether it is routed, waits, or is none of its business.
-- Parameters: id.
-- Returns: rows: subscription, state (of the subscription), route: routed, waiting or before its start; personal_fields of the
--   event's contract, which people are not to be shown in passing.
select
    subscription.name as subscription, subscription.state,
    case
        when event.position <= subscription.start_position then 'before its start'
        when event.epoch < place.epoch
          or (event.epoch = place.epoch and pg_visible_in_snapshot(event.xid, place.from_snapshot))
          or coalesce(event.epoch = place.epoch and pg_visible_in_snapshot(event.xid, place.to_snapshot)
                      and event.position <= place.position, false) then 'routed'
        else 'waiting'
    end as route,
    coalesce(event_type.personal_fields, '{}') as personal_fields
from hudhud.event
left join hudhud.subscription on subscription.event_type = event.type
left join lateral (
    select cursor.epoch, cursor.from_snapshot, cursor.to_snapshot, cursor.position
    from hudhud.subscription_cursor cursor
    where cursor.subscription = subscription.name
    order by cursor.number desc limit 1
) place on true
left join hudhud.event_type on event_type.type = event.type and event_type.version = event.version
where event.id = %(id)s::uuid
order by subscription.name
