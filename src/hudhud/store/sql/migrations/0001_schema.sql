-- The house: who may run what, the policies every client shares, and what has been applied.
-- Every hot table carries a shard (0 to 255, today 0), the same byte that ends each job id.

create table hudhud.schema_version (
    number     integer     primary key,
    name       text        not null,
    applied_at timestamptz not null default clock_timestamp()
);

create table hudhud.function_version (
    path     text primary key,
    checksum text not null
);

-- What must be equal for all clients is a row, not a file.
create table hudhud.setting (
    only_row             boolean  primary key default true check (only_row),
    payload_bytes_max    integer  not null default 65536 check (payload_bytes_max between 1024 and 1048576),
    result_bytes_max     integer  not null default 16384 check (result_bytes_max between 1024 and 1048576),
    keep_succeeded       interval not null default '7 days',
    keep_cancelled       interval not null default '7 days',
    keep_dead            interval not null default '28 days',
    max_crashes          smallint not null default 3 check (max_crashes > 0),
    -- Jobs below this id have lost their partition; whatever is still needed of them lives in the *_kept tables.
    kept_below           uuid     not null default '00000000-0000-0000-0000-000000000000',
    -- Every transaction that has read an older kept_below has a smaller id; null until is_settled has noted one.
    closed_xid           bigint
);
insert into hudhud.setting default values;

create table hudhud.api_key (
    id          uuid        primary key,
    name        text        not null,
    tenant_id   text        not null,
    scopes      text[]      not null check (scopes <@ array['enqueue', 'publish', 'read', 'operate', 'approve']),
    secret_hash bytea       not null unique,
    created_at  timestamptz not null,
    created_by  text        not null,
    revoked_at  timestamptz,
    revoked_by  text,
    check ((revoked_at is null) = (revoked_by is null))
);

-- Append-only: who did what to what, and why.
create table hudhud.audit (
    id        bigint      generated always as identity primary key,
    at        timestamptz not null,
    actor     text        not null,
    action    text        not null,
    tenant_id text,
    subject   text        not null,
    reason    text,
    detail    jsonb       not null default '{}'
);
create index audit_subject on hudhud.audit (subject, id);
