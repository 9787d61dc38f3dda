-- The element for one job of a batch: an array of one element holds for all.
create or replace function hudhud.pick(elements anyarray, n bigint)
returns anyelement language sql immutable parallel safe as $$
    select case when cardinality(elements) = 1 then elements[1] else elements[n::integer] end
$$;
