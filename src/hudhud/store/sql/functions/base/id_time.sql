-- The instant inside a UUIDv7, to the millisecond.
create or replace function hudhud.id_time(id uuid)
returns timestamptz language sql immutable parallel safe
return to_timestamp(('x' || lpad(encode(substring(uuid_send(id) from 1 for 6), 'hex'), 16, '0'))::bit(64)::bigint / 1000.0);
