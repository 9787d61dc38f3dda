-- From here on, every transaction that writes about a job or an effect is noted: what renews leases and tells of workers is not.
create table public.seen (xid xid8 not null);
create function public.see() returns trigger language plpgsql as $$
begin
    insert into public.seen values (pg_current_xact_id());
    return null;
end $$;
do $$
declare
    name text;
begin
    foreach name in array array['job', 'ready', 'lease', 'outcome', 'effect'] loop
        execute format('create trigger see after insert or delete on hudhud.%I for each row execute function public.see()', name);
    end loop;
    create trigger see_update after update on hudhud.effect for each row execute function public.see();
end $$;
