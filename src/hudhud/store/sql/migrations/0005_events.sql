-- Events: versioned facts, written in the transaction that made them true, and routed to subscriptions as jobs.
--   event                what happened: written once, daily partitions by id, never updated
--   event_aggregate      the last sequence number of what events are about; its row is the lock that gives them an order
--   subscription         who wants which events
--   subscription_cursor  how far each is; the newest row holds
-- Creates tables only; nothing that exists is locked but setting, for an instant.

create table hudhud.event_type (
    type            text     not null,
    version         smallint not null check (version > 0),
    -- As job_type has them.
    field_names     text[]   not null default '{}',
    field_types     text[]   not null default '{}',
    field_needed    boolean[] not null default '{}',
    is_open         boolean  not null default true,
    guard           jsonpath,
    -- Fields that tell something about a person, and why the event cannot do with a reference instead.
    personal_fields text[]   not null default '{}',
    personal_need   text     check (personal_need <> ''),
    announced_at    timestamptz not null,
    primary key (type, version)
);

-- The order of events. Taken after the aggregate's lock, so that within an aggregate it is the order of commits, too.
create sequence hudhud.event_position cache 1;

create table hudhud.event (
    id             uuid        not null,
    shard          smallint    not null,
    version        smallint    not null,
    -- Which database's transaction ids xid belongs to; see database_epoch.
    epoch          integer     not null,
    position       bigint      not null,
    -- Of the whole transaction, not of a savepoint in it: what snapshots speak about.
    xid            xid8        not null,
    -- Within the aggregate, from 1; null where no order was wanted.
    sequence       bigint,
    occurred_at    timestamptz not null,
    causation_id   uuid,
    type           text        not null,
    tenant_id      text        not null,
    aggregate_type text,
    aggregate_id   text,
    correlation_id text        not null,
    traceparent    text,
    payload        jsonb       not null,
    primary key (id, shard),
    check ((aggregate_type is null) = (aggregate_id is null)),
    check (sequence is null or aggregate_id is not null)
) partition by range (id);
-- What has become visible between two snapshots.
create index event_xid on hudhud.event (type, epoch, xid);
-- A long step of that in order. Partial, though every position is positive, so that nobody who looks for transaction ids is
-- planned to walk all events of a type.
create index event_order on hudhud.event (type, position) where position > 0;

create table hudhud.event_aggregate (
    tenant_id      text     not null,
    aggregate_type text     not null,
    aggregate_id   text     not null,
    shard          smallint not null,
    sequence       bigint   not null,
    primary key (tenant_id, aggregate_type, aggregate_id)
) with (fillfactor = 70);

create table hudhud.subscription (
    name           text        primary key,
    event_type     text        not null,
    -- The jobs made of its events.
    job_type       text        not null,
    queue          text        not null,
    lane           smallint    not null check (lane between 0 and 3),
    max_attempts   smallint    not null check (max_attempts > 0),
    -- A paused one waits and keeps its events; of a stopped one, or one that nobody has announced for keep_silent, they go.
    state          text        not null check (state in ('active', 'paused', 'stopped')),
    -- Events up to this position are none of its business.
    start_position bigint      not null,
    -- Events that were dropped, by their age, before it had them.
    skipped        bigint      not null default 0,
    -- Up to which day those are counted.
    skipped_to     date,
    created_at     timestamptz not null,
    seen_at        timestamptz not null
) with (fillfactor = 50);

-- Everything visible in from_snapshot is routed. While a step is under way (what became visible up to to_snapshot, too many for
-- one call), of that everything up to position.
-- A move inserts a row and deletes the one before, so that no old snapshot, held elsewhere, makes looking for the newest dear.
create table hudhud.subscription_cursor (
    subscription  text        not null,
    number        bigint      not null,
    epoch         integer     not null,
    from_snapshot pg_snapshot not null,
    to_snapshot   pg_snapshot,
    to_position   bigint,
    position      bigint      not null,
    routed        bigint      not null,
    moved_at      timestamptz not null,
    primary key (subscription, number),
    check ((to_snapshot is null) = (to_position is null))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Transaction ids mean something on one server only. identity names this one and this database, null until the first event is
-- routed; a database that finds another one there is a copy, and stamps its events with the next epoch.
create table hudhud.database_epoch (
    only_row boolean primary key default true check (only_row),
    epoch    integer not null default 0,
    identity text
);
insert into hudhud.database_epoch default values;

-- Until then a relay polls hard enough that a publish need not notify.
create table hudhud.relay_state (
    only_row   boolean     primary key default true check (only_row),
    busy_until timestamptz not null default '-infinity'
) with (fillfactor = 50);
insert into hudhud.relay_state default values;

alter table hudhud.setting
    add column event_bytes_max integer  not null default 16384 check (event_bytes_max between 1024 and 65536),
    add column keep_events     interval not null default '7 days' check (keep_events >= '1 day'),
    add column keep_silent     interval not null default '3 days';
