-- The smallest id that new_id can make at an instant: the bound of a day's partition.
create or replace function hudhud.first_id(at timestamptz)
returns uuid language sql immutable parallel safe
return encode(substring(int8send((extract(epoch from at) * 1000)::bigint) from 3) || '\x00000000000000000000'::bytea, 'hex')::uuid;
