-- The first call of a long step costs no more than the others: it begins where the step can begin at the earliest, and takes of each
-- transaction that was open the first events alone.
-- Locks event against publishes while an index is built, about a second per million events that are kept.

-- Of a cursor that was there before nothing is known: its next step looks from the beginning, once.
alter table hudhud.subscription_cursor
    -- What transactions published that came after from_snapshot (their ids are at or above its xmax) has higher positions; and
    -- next_position is that of to_snapshot.
    add column from_position bigint not null default 0,
    add column next_position bigint,
    add constraint subscription_cursor_next_check check ((to_snapshot is null) = (next_position is null)) not valid;

drop index hudhud.event_xid;
create index event_xid on hudhud.event (type, epoch, xid, position);
