-- Refuse to route in a copy of a database whose cursors speak of another server's transactions.
-- Returns: the epoch. Raises: HH010 until somebody has called rebase.
-- Touches: database_epoch, the first time. Called by: due_subscriptions, relay.
create or replace function hudhud.require_original()
returns integer language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    known record;
    found_here text := hudhud.database_identity();
begin
    select e.epoch, e.identity into known from hudhud.database_epoch e;
    if known.identity is null then
        update hudhud.database_epoch e set identity = found_here where e.identity is null;
    elsif known.identity <> found_here then
        raise exception using errcode = 'HH010', message = format(
            'This database is a copy: its events were routed as %s, and it is %s. Make sure that the other one is not in use'
            ' any more, or that both may act, then run `hudhud events rebase`.', known.identity, found_here);
    end if;
    return known.epoch;
end $$;
