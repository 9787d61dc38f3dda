-- Each subscription and how far it is, at a cost that is bounded whatever has piled up.
-- Parameters: count_max: counting stops there.
-- Returns: rows by name. is_silent: nobody has announced it for keep_silent, so that nothing is routed to it; is_announced: a worker
--   did so a moment ago. waiting: events that
--   are committed and not routed, and oldest_seconds: how long the oldest of those that were counted has been waiting; is_capped: there
--   may be more. routed: since it began; skipped: gone before it had them.
select
    subscription.name, subscription.event_type, subscription.state, hudhud.is_silent(subscription.seen_at) as is_silent,
    subscription.seen_at > hudhud.clock() - interval '15 minutes' as is_announced,
    subscription.queue, hudhud.lane_name(subscription.lane) as lane, subscription.max_attempts::integer as max_attempts,
    waiting.events as waiting, waiting.events >= %(count_max)s as is_capped,
    coalesce(extract(epoch from hudhud.clock() - hudhud.id_time(waiting.oldest))::double precision, 0) as oldest_seconds,
    place.routed, subscription.skipped, place.epoch, place.to_snapshot is not null as is_in_step, subscription.start_position,
    subscription.created_at, subscription.seen_at, place.moved_at
from hudhud.subscription
cross join lateral (
    select cursor.* from hudhud.subscription_cursor cursor
    where cursor.subscription = subscription.name
    order by cursor.number desc limit 1
) place
cross join lateral (
    select count(*) as events, (min(unrouted.id::text))::uuid as oldest
    from (
        (select event.id from hudhud.event
         where place.to_snapshot is null
           and event.type = subscription.event_type and event.epoch = place.epoch
           and event.xid >= pg_snapshot_xmax(place.from_snapshot) and event.position > subscription.start_position
         limit %(count_max)s)
        union all
        (select opened.id
         from pg_snapshot_xip(place.from_snapshot) transaction(xid)
         cross join lateral (
             select event.id from hudhud.event
             where event.type = subscription.event_type and event.epoch = place.epoch
               and event.xid = transaction.xid and event.position > subscription.start_position
             offset 0) opened
         where place.to_snapshot is null
         limit %(count_max)s)
        union all
        (select event.id from hudhud.event
         where event.type = subscription.event_type and event.epoch > place.epoch limit %(count_max)s)
        union all
        -- Of a long step, what comes after its place; as pick_events looks for it.
        (select opened.id
         from pg_snapshot_xip(place.from_snapshot) transaction(xid)
         cross join lateral (
             select event.id from hudhud.event
             where event.type = subscription.event_type and event.epoch = place.epoch and event.xid = transaction.xid
               and event.position > place.position and event.position <= place.from_position
             offset 0) opened
         where place.to_snapshot is not null
         limit %(count_max)s)
        union all
        (select event.id from hudhud.event
         where place.to_snapshot is not null
           and event.type = subscription.event_type and event.epoch = place.epoch and event.position > 0
           and event.position > greatest(place.position, place.from_position)
           and not pg_visible_in_snapshot(event.xid, place.from_snapshot)
         order by event.position limit %(count_max)s)
        limit %(count_max)s
    ) unrouted
) waiting
order by subscription.name
