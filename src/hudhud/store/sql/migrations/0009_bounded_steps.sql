-- The first call of a long step costs no more than the others: it begins where the step can begin at the earliest, and takes of each
-- transaction that was open the first events alone.
-- Its way of looking takes the place of pick_events as it was, which only relay called.
-- Locks event against publishes while an index is built, about a second per million events that are kept.

alter table hudhud.subscription_cursor
    -- What transactions published that came after from_snapshot (their ids are at or above its xmax) has higher positions; and
    -- next_position is that of to_snapshot. Of a cursor that is there already nothing is known: it looks from the beginning, once.
    add column from_position bigint not null default 0,
    add column next_position bigint;
update hudhud.subscription_cursor set next_position = 0 where to_snapshot is not null;
alter table hudhud.subscription_cursor
    add constraint subscription_cursor_next_check check ((to_snapshot is null) = (next_position is null));

drop function if exists hudhud.pick_events(text, integer, pg_snapshot, pg_snapshot, bigint, bigint, integer, boolean);
drop index hudhud.event_xid;
create index event_xid on hudhud.event (type, epoch, xid, position);
