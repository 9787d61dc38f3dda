-- Write an event in the caller's transaction: it happened if that commits, and never if it rolls back.
-- Parameters: type and version name the contract; payload is a JSON object of at most setting.event_bytes_max. aggregate_type and
--   aggregate_id: what it is about. ordered: events of one aggregate are written one after another, each transaction holding the
--   aggregate until it ends, and numbered from 1; false where no order is wanted and writers should not wait for each other.
--   occurred_at: null for now. correlation_id: null for the event's own id. causation_id: the event or job that it follows from.
--   notify: false for callers of PREPARE TRANSACTION.
-- Returns: the event's id, and its number within the aggregate, null without order.
-- Raises: HH011 refused, HH002 too large; 23514 when nobody has made this day's partitions (see days_ahead).
-- Touches: event, event_aggregate. Locks: the aggregate's row, when there is one and order is wanted: two transactions that
--   publish about the same aggregates in opposite order can deadlock.
create or replace function hudhud.publish(
    type text, payload jsonb, version integer default 1, tenant_id text default 'default', aggregate_type text default null,
    aggregate_id text default null, ordered boolean default true, occurred_at timestamptz default null,
    correlation_id text default null, causation_id uuid default null, traceparent text default null, notify boolean default true,
    out id uuid, out sequence bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    seen record;
begin
    -- One look for all there is to know, as in enqueue. The transaction has its id before the event has its position: pick_events
    -- rests on that.
    select pg_current_xact_id() as xid, hudhud.new_id() as id, hudhud.clock() as now,
           exists (select from hudhud.relay_state r where r.only_row and r.busy_until > clock_timestamp()) as is_busy,
           coalesce(octet_length(type) between 1 and 200 and octet_length(tenant_id) between 1 and 200
                    and version between 1 and 32767, false)
               and num_nonnulls(aggregate_type, aggregate_id, occurred_at, correlation_id, traceparent) = 0 as is_plain,
           coalesce(jsonb_typeof(payload) = 'object'
                    and (octet_length(payload::text) <= 200 or hudhud.is_readable(payload))
                    and (t.guard is null or payload @@ t.guard)
                    and (coalesce(t.is_open, true) or payload - t.field_names = '{}')
                    and case
                            when t.type is not null then t.personal_need is not null or not payload ?| t.personal_fields
                            -- Of a version that nobody declared yet the others say what is personal.
                            else not exists (
                                select from hudhud.event_type o
                                where o.type = publish.type and o.personal_need is null and payload ?| o.personal_fields)
                        end, false) as is_fine
    into seen
    from (select) one
    left join hudhud.event_type t on t.type = publish.type and t.version = publish.version;
    if not seen.is_plain then
        perform hudhud.check_event(
            type, version, tenant_id, aggregate_type, aggregate_id, occurred_at, correlation_id, traceparent);
    end if;
    if not seen.is_fine then
        perform hudhud.refuse_event(type, version, payload);
    end if;

    id := seen.id;
    if aggregate_id is not null and coalesce(ordered, true) then
        insert into hudhud.event_aggregate as a (tenant_id, aggregate_type, aggregate_id, shard, sequence)
        values (tenant_id, aggregate_type, aggregate_id, 0, 1)
        on conflict on constraint event_aggregate_pkey do update set sequence = a.sequence + 1
        returning a.sequence into sequence;
    end if;
    -- The position is taken here, after the aggregate's lock; and the epoch, after the lock of a rebase. In a copy it is the next one.
    insert into hudhud.event (
        id, shard, version, epoch, position, xid, sequence, occurred_at, causation_id, type, tenant_id, aggregate_type,
        aggregate_id, correlation_id, traceparent, payload)
    select id, 0, version, e.epoch + (e.identity is not null and e.identity <> hudhud.database_identity())::integer,
           nextval('hudhud.event_position'), seen.xid, sequence, coalesce(occurred_at, seen.now), causation_id, type,
           tenant_id, aggregate_type, aggregate_id, coalesce(correlation_id, id::text), traceparent, payload
    from hudhud.database_epoch e where e.only_row;
    if notify and not seen.is_busy then
        perform pg_notify('hudhud', '!events');
    end if;
    perform hudhud.reach('publish.written');
end $$;
