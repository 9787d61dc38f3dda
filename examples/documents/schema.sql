create schema if not exists documents;

create table if not exists documents.owner (
    name         text  primary key,
    token_hash   bytea not null unique
);

create table if not exists documents.document (
    id          uuid        primary key default gen_random_uuid(),
    owner       text        not null references documents.owner (name),
    file_name   text        not null,
    -- Where the bytes are, and what they must hash to. Neither is ever part of a job.
    file_key    text        not null,
    sha256      text        not null,
    state       text        not null default 'accepted'
        check (state in ('accepted', 'analysing', 'analysed', 'refused')),
    reason      text,
    created_at  timestamptz not null default now(),
    check ((reason is not null) = (state = 'refused'))
);
-- The job that analyses it: when that is dead, nobody need wait any longer.
alter table documents.document add column if not exists job_id uuid;

-- Without a unique key on the document, so that an analysis that happened twice could be seen.
create table if not exists documents.analysis (
    id          bigint generated always as identity primary key,
    document_id uuid   not null references documents.document (id),
    result      jsonb  not null
);

-- What owners are told. Without a unique key, too.
create table if not exists documents.notice (
    id          bigint      generated always as identity primary key,
    owner       text        not null references documents.owner (name),
    document_id uuid        not null references documents.document (id),
    created_at  timestamptz not null default now()
);
create index if not exists notice_of_owner on documents.notice (owner, id);
