-- Failpoints inside SQL functions: what is to happen at which of them, one order at a time.
create table chaos.armed (
    ticket  bigint generated always as identity,
    point   text   not null,
    action  text   not null check (action in ('kill', 'raise', 'cancel', 'delay')),
    seconds double precision not null
);
-- The ticket of the last order that was carried out. A sequence, because what is done there is mostly rolled back.
create sequence chaos.fired minvalue 0 start 0;
select setval('chaos.fired', 0);

-- In the place of hudhud's own, which does nothing. kill: of the server's process, which is all that a transaction ever
-- sees of the death of its client. cancel: of the statement.
create or replace function hudhud.reach(point text)
returns void language plpgsql volatile
set search_path = pg_catalog, pg_temp as $$
declare
    a record;
begin
    select * into a from chaos.armed order by ticket desc limit 1;
    if a.point is distinct from reach.point or a.ticket <= (select last_value from chaos.fired) then
        return;
    end if;
    perform setval('chaos.fired', a.ticket);
    case a.action
        when 'kill' then perform pg_terminate_backend(pg_backend_pid());
        when 'cancel' then perform pg_cancel_backend(pg_backend_pid());
        when 'raise' then raise exception 'planned at %', point;
        else null;
    end case;
    perform pg_sleep(a.seconds);
end $$;
