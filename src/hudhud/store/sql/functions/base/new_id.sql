-- A UUIDv7 (RFC 9562, 5.7) from the server's real clock whose last byte is the shard.
-- Parameters: shard 0 to 255.
create or replace function hudhud.new_id(shard smallint default 0)
returns uuid language sql volatile parallel safe
return encode(
    set_byte(
        -- A version 4 value turned into version 7 by two bits, under 48 bits of milliseconds.
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                    placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
            52, 1), 53, 1),
        15, shard),
    'hex')::uuid;
