-- The subscriptions for which a relay has something to do; one call for all, which writes nothing when there is nothing.
-- A look at each through the index, from where its cursor is: its cost does not grow with what is routed or published for others,
--   but with what transactions have published that are open and later than the cursor.
-- Parameters: quiet: a cursor that has nothing to route, but still names open transactions, moves on after so long.
-- Returns: names, in the order of who waited longest. Raises: HH010 in a copy.
-- Touches: subscription, subscription_cursor, event (read). Called by: worker/relay.py.
create or replace function hudhud.due_subscriptions(quiet interval default '1 minute')
returns text[] language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
    this_epoch integer := hudhud.require_original();
    quiet_since timestamptz := hudhud.clock() - quiet;
    names text[];
begin
    names := array(
        select s.name
        from hudhud.subscription s, lateral (
            select * from hudhud.subscription_cursor c where c.subscription = s.name order by c.number desc limit 1) c
        where s.state = 'active' and not hudhud.is_silent(s.seen_at)
          and (c.to_snapshot is not null
               or c.epoch < this_epoch
               or pg_snapshot_xmax(c.from_snapshot)::text::bigint <= 3
               or (c.moved_at < quiet_since and pg_snapshot_xmin(c.from_snapshot) <> pg_snapshot_xmax(c.from_snapshot))
               or exists (
                   select from hudhud.event e
                   where e.type = s.event_type and e.epoch = c.epoch and e.xid >= pg_snapshot_xmax(c.from_snapshot)
                     and e.position > s.start_position)
               -- Each by itself: before PostgreSQL 17 a plan for = any (…) may read all events of the type.
               or exists (
                   select from pg_snapshot_xip(c.from_snapshot) opened(xid), lateral (
                       select from hudhud.event e
                       where e.type = s.event_type and e.epoch = c.epoch and e.xid = opened.xid
                         and e.position > s.start_position
                         and pg_visible_in_snapshot(opened.xid, pg_current_snapshot()) offset 0) e))
        order by c.moved_at, s.name);
    -- When this is over, so is an id just below those of the steps that follow: snapshot_below has little to name. It costs no flush.
    if names <> '{}' then
        perform pg_current_xact_id();
    end if;
    return names;
end $$;
