-- Whether a cursor or an event of an epoch speaks of transactions or positions that this server has not had yet: a copy that
--   does not look like one, because its events were never routed where they come from.
-- Called by: rebase.
create or replace function hudhud.is_ahead(epoch integer)
returns boolean language sql stable
set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from hudhud.subscription_cursor c
        where c.epoch = is_ahead.epoch
          and (pg_snapshot_xmax(c.from_snapshot) > pg_snapshot_xmax(pg_current_snapshot())
               or c.from_position > hudhud.last_position()))
        or exists (
        select from hudhud.subscription s
        join hudhud.event e on e.type = s.event_type and e.epoch = is_ahead.epoch
            and e.xid >= pg_snapshot_xmax(pg_current_snapshot()) and e.xid is distinct from pg_current_xact_id_if_assigned())
$$;
