-- Replace the one clock by one that stands still where a test has set it. Only the schema's owner can do this.
-- The row is written by store/test_clock.py in the same transaction; without a row time runs as ever.
-- The checksum is taken away so that the next migration brings the real clock back.
drop table if exists hudhud.test_clock;
create table hudhud.test_clock (
    only_row boolean     primary key default true check (only_row),
    instant  timestamptz not null
);
-- Not inlined, and with the owner's rights: whoever may ask for the time need not see the table.
create or replace function hudhud.clock()
returns timestamptz language sql volatile parallel safe security definer
set search_path = pg_catalog, pg_temp as $$
    select coalesce((select c.instant from hudhud.test_clock c), clock_timestamp())
$$;
update hudhud.function_version set checksum = 'test clock' where path = 'base/clock.sql';
