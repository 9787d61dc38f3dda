-- A UUIDv7 (RFC 9562, 5.7 and 6.2 method 3) from the server's real clock whose last byte is the shard. The twelve bits behind
-- the milliseconds hold quarters of microseconds, so ids of one server sort as they were made.
-- Parameters: shard 0 to 255.
create or replace function hudhud.new_id(shard smallint default 0)
returns uuid language plpgsql volatile parallel safe
set search_path = pg_catalog, pg_temp as $$
declare
    quarters bigint := (extract(epoch from clock_timestamp()) * 4000000)::bigint;
begin
    return encode(
        -- 48 bits of milliseconds, version 7, 12 bits of fraction; then variant and random bits of a version 4 UUID.
        int8send((quarters / 4000 << 16) | 28672 | quarters % 4000)
        || substring(uuid_send(gen_random_uuid()) from 9 for 7)
        || set_byte('\x00', 0, shard),
        'hex')::uuid;
end $$;
