-- Ids for a batch: one random start, then a counter (RFC 9562, 6.2, method 2), so that a batch is dense and in order.
-- Parameters: amount of ids; shard 0 to 255.
-- Returns: ascending ids, unique like new_id.
create or replace function hudhud.new_ids(amount integer, shard smallint default 0)
returns uuid[] language plpgsql volatile parallel safe
set search_path = pg_catalog, pg_temp as $$
declare
    base bytea := uuid_send(hudhud.new_id(shard));
    -- Bytes 11 to 14 count; the start leaves room for the whole batch.
    start bigint := (random() * 2000000000)::bigint;
begin
    return array(
        select encode(overlay(base placing int4send((start + n)::integer) from 12 for 4), 'hex')::uuid
        from generate_series(0, amount - 1) n);
end $$;
