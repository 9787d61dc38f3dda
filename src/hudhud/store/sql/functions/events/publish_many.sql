-- Write many events in the caller's transaction, in their order, or none of them.
-- Parameters: events: a JSON array of objects, whose fields are the parameters of publish. notify: as there.
-- Returns: one row: per event, in order, its id and its number within the aggregate.
-- Raises: as publish, with the position (from 1).
-- Touches: event_aggregate; else as publish. Locks: as publish; all aggregates first, in their own order, so that two batches
--   never deadlock.
create or replace function hudhud.publish_many(
    events jsonb, notify boolean default true, out ids uuid[], out sequences bigint[])
language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    one record;
    written record;
begin
    ids := '{}';
    sequences := '{}';
    if jsonb_typeof(events) is distinct from 'array' then
        raise exception using errcode = 'HH011', message = 'events must be a JSON array.';
    end if;
    insert into hudhud.event_aggregate as a (tenant_id, aggregate_type, aggregate_id, shard, sequence)
    select distinct coalesce(e.tenant_id, 'default'), e.aggregate_type, e.aggregate_id, 0, 0
    from jsonb_to_recordset(events) e(tenant_id text, aggregate_type text, aggregate_id text, ordered boolean)
    where length(e.aggregate_type) between 1 and 200 and length(e.aggregate_id) between 1 and 200 and coalesce(e.ordered, true)
      and length(coalesce(e.tenant_id, 'default')) between 1 and 200
    order by 1, 2, 3
    on conflict on constraint event_aggregate_pkey do update set sequence = a.sequence;

    begin
        for one in
            select * from rows from (jsonb_to_recordset(events) as (
                type text, payload jsonb, version integer, tenant_id text, aggregate_type text, aggregate_id text,
                ordered boolean, occurred_at timestamptz, correlation_id text, causation_id uuid, traceparent text))
                with ordinality as e(type, payload, version, tenant_id, aggregate_type, aggregate_id, ordered, occurred_at,
                                     correlation_id, causation_id, traceparent, n)
            order by e.n
        loop
            select p.id, p.sequence into written from hudhud.publish(
                one.type, one.payload, coalesce(one.version, 1), coalesce(one.tenant_id, 'default'), one.aggregate_type,
                one.aggregate_id, one.ordered, one.occurred_at, one.correlation_id, one.causation_id, one.traceparent, notify) p;
            ids := array_append(ids, written.id);
            sequences := array_append(sequences, written.sequence);
        end loop;
    exception when sqlstate 'HH002' or sqlstate 'HH011' then
        raise exception using errcode = sqlstate, message = format('The event at position %s was refused: %s', one.n, sqlerrm);
    end;
end $$;
