-- What all three layouts share: the schema and job ids.
drop schema if exists probe cascade;
create schema probe;

-- Ids of one call: UUIDv7, ascending, last byte = shard. One draw of randomness per call, the rest by counter and hash.
create function probe.uuidv7_many(n int, shard int) returns uuid[] language plpgsql volatile as $$
declare
  t    bigint := (extract(epoch from clock_timestamp()) * 4000000)::bigint;
  seed bigint := hashtextextended(gen_random_uuid()::text, 0);
begin
  return (select array_agg(encode(int8send(((t + i) / 4000 << 16) | 28672 | (t + i) % 4000)
            || int8send((hashint8extended(i, seed) & 4611686018427387648) | shard | (-9223372036854775808)), 'hex')::uuid)
          from generate_series(1::bigint, n) i);
end $$;

create function probe.uuidv7(shard int) returns uuid language sql volatile parallel safe as $$
  select encode(set_byte(uuid_send(uuidv7()), 15, shard), 'hex')::uuid
$$;

-- The lowest id of an instant: bounds of partitions and of scans.
create function probe.id_floor(at timestamptz) returns uuid language sql immutable as $$
  select encode(int8send(((extract(epoch from at) * 1000)::bigint << 16) | 28672) || '\x8000000000000000'::bytea, 'hex')::uuid
$$;

create table probe.business (id bigint generated always as identity primary key, note text);

create function probe.make_day(p_table text, p_nr int, p_low int, p_high int, p_options text) returns void language plpgsql as $$
begin
  execute format('create table probe.%I partition of probe.%I for values from (%L) to (%L) %s', p_table || '_' || p_nr, p_table,
    probe.id_floor(date_trunc('day', now()) + p_low * interval '1 day'),
    probe.id_floor(date_trunc('day', now()) + p_high * interval '1 day'), p_options);
end $$;
