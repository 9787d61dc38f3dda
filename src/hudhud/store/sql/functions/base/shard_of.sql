-- The shard that an id belongs to: its last byte.
create or replace function hudhud.shard_of(id uuid)
returns smallint language sql immutable parallel safe
return get_byte(uuid_send(id), 15)::smallint;
