-- How many events of a span of ids a subscription has not routed yet.
-- Parameters: lowest and beyond: ids, such as a day's bounds; counting ends at count_max.
-- Called by: release_event_day.
create or replace function hudhud.unrouted_events(subscription text, lowest uuid, beyond uuid, count_max integer)
returns integer language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    asked hudhud.subscription%rowtype;
    mark hudhud.subscription_cursor%rowtype;
    amount integer;
begin
    select s.* into asked from hudhud.subscription s where s.name = unrouted_events.subscription;
    select c.* into mark from hudhud.subscription_cursor c
    where c.subscription = unrouted_events.subscription order by c.number desc limit 1;
    select count(*) into amount from (
        select from (
            select e.position, e.epoch, e.xid from hudhud.event e
            where e.type = asked.event_type and e.epoch = mark.epoch and e.xid >= pg_snapshot_xmax(mark.from_snapshot)
              and e.id >= lowest and e.id < beyond
            union all
            select opened.* from pg_snapshot_xip(mark.from_snapshot) x(xid), lateral (
                select e.position, e.epoch, e.xid from hudhud.event e
                where e.type = asked.event_type and e.epoch = mark.epoch and e.xid = x.xid
                  and e.id >= lowest and e.id < beyond offset 0) opened
            union all
            select e.position, e.epoch, e.xid from hudhud.event e
            where e.type = asked.event_type and e.epoch > mark.epoch and e.id >= lowest and e.id < beyond
        ) e
        where e.position > asked.start_position
          -- Of the step that is under way, what came before its place is routed.
          and not coalesce(e.epoch = mark.epoch and pg_visible_in_snapshot(e.xid, mark.to_snapshot) and e.position <= mark.position, false)
        limit count_max) unrouted;
    return amount;
end $$;
