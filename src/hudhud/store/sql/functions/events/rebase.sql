-- Let a copy of a database route its events itself, from where the original was when it was copied: what the cursors had not routed
--   then, and everything that was published here since. Nothing is skipped, nothing repeated; but what the original goes on to
--   route is routed there and here.
-- Returns: the new epoch. Raises: HH001 without a reason; HH007 when this is no copy.
-- Touches: database_epoch, audit. Locks: in the rare case that only transaction ids tell of a copy, event, against publishes.
create or replace function hudhud.rebase(actor text, reason text)
returns integer language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    found_here text := hudhud.database_identity();
    known record;
begin
    if coalesce(trim(reason), '') = '' then
        raise exception using errcode = 'HH001', message = 'A rebase needs a reason.';
    end if;
    select e.epoch, e.identity into known from hudhud.database_epoch e for update;
    if known.identity is null or known.identity = found_here then
        -- Publishes stamp the next epoch in a copy before and after this, and here only after it: none may be under way.
        lock table hudhud.event in share row exclusive mode;
        if not hudhud.is_ahead(known.epoch) then
            raise exception using errcode = 'HH007', message =
                'This database is no copy: its events are routed as they should be. There is nothing to rebase.';
        end if;
    end if;
    update hudhud.database_epoch e set epoch = e.epoch + 1, identity = found_here;
    perform hudhud.write_audit(actor, 'events.rebase', null, found_here, reason,
                               jsonb_build_object('epoch', known.epoch + 1, 'copy_of', known.identity));
    perform pg_notify('hudhud', '!events');
    return known.epoch + 1;
end $$;
