-- The record of events: what was published, by who published it, and what became of it.

-- What somebody published, written in the same transaction after it. place: within the aggregate, counted here and not by
-- hudhud, under a lock of our own that is taken later than its.
create table chaos.fact (event_id uuid not null, number bigint not null, aggregate text, place bigint);
create table chaos.aggregate (name text primary key, places bigint not null);

create function chaos.say_fact(event_id uuid, number bigint, aggregate text)
returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    place bigint;
begin
    if aggregate is not null then
        insert into chaos.aggregate as a (name, places) values (aggregate, 1)
        on conflict (name) do update set places = a.places + 1 returning a.places into place;
    end if;
    insert into chaos.fact values (event_id, number, aggregate, place);
end $$;

create function chaos.say_facts(event_ids uuid[], numbers bigint[], aggregates text[])
returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    perform chaos.say_fact(f.event_id, f.number, f.aggregate)
    from unnest(event_ids, numbers, aggregates) with ordinality f(event_id, number, aggregate, n) order by f.n;
end $$;

-- What the relay made of it, in the order in which it did; only first runs, of the queue that subscriptions have.
create table chaos.routed (seq bigint generated always as identity, job_id uuid not null);

create function chaos.note_routed() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    insert into chaos.routed (job_id) values (new.job_id);
    return null;
end $$;

create trigger chaos_note_routed after insert on hudhud.ready
for each row when (new.queue = 'news' and new.run = 1) execute function chaos.note_routed();

-- What a subscriber's handler did, in ctx.transaction().
create table chaos.delivery (event_id uuid not null, subscription text not null, job_id uuid not null, run integer not null);
