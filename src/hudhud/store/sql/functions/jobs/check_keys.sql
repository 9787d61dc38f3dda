-- Refuse idempotency keys of a wrong length.
-- Raises: HH001 with the first position. Called by: enqueue_many.
create or replace function hudhud.check_keys(keys text[])
returns void language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp as $$
declare
    place bigint := (select min(n) from unnest(keys) with ordinality k(key, n) where length(k.key) not between 1 and 500);
begin
    if place is not null then
        raise exception using errcode = 'HH001',
            message = format('The job at position %s was refused: idempotency_key must have 1 to 500 characters.', place);
    end if;
end $$;
