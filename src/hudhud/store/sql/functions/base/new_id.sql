-- A UUIDv7 (RFC 9562, 5.7 and 6.2 method 3) from the server's real clock whose last byte is the shard: 48 bits of
-- milliseconds, the version, 12 bits of the millisecond's fraction, so that ids of one server sort as they were made; then
-- the variant and 52 random bits. They make an id unique, not secret, and so come from the session's own generator: a
-- strong one may cost as much as writing the job. One expression, which PostgreSQL inlines.
-- Parameters: shard 0 to 255.
create or replace function hudhud.new_id(shard smallint default 0)
returns uuid language sql volatile parallel safe
return (
    overlay(lpad(to_hex((extract(epoch from clock_timestamp()) * 4096000)::bigint), 15, '0') placing '7' from 13 for 0)
    || '8' || lpad(to_hex((random() * 4503599627370496)::bigint), 13, '0')
    || lpad(to_hex(shard::integer), 2, '0'))::uuid;
