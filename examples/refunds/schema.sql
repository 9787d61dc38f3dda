create schema if not exists refunds;

-- What a customer paid, and how much of it is to go back. Amounts are whole toman.
create table if not exists refunds.transaction (
    shop           text   not null,
    transaction_id text   not null,
    amount         bigint not null check (amount > 0),
    -- The last word on sums, whoever writes: no more goes back than was paid.
    refunded       bigint not null default 0 check (refunded between 0 and amount),
    primary key (shop, transaction_id)
);

-- A file, taken in once: the same bytes again are the same file.
create table if not exists refunds.batch (
    id         uuid        primary key,
    shop       text        not null,
    sha256     text        not null,
    file_name  text        not null,
    created_at timestamptz not null default now(),
    unique (shop, sha256)
);

-- One line of a file. Two refunds of one transaction stay two, equal amounts or not.
create table if not exists refunds.refund (
    id             uuid        primary key,
    batch_id       uuid        not null references refunds.batch (id),
    line           integer     not null,
    shop           text        not null,
    transaction_id text        not null,
    amount         bigint      not null check (amount > 0),
    state          text        not null default 'recorded' check (state in ('recorded', 'confirmed', 'refused')),
    -- The bank's number of the confirmation.
    confirmation   bigint,
    reason         text,
    unique (batch_id, line),
    foreign key (shop, transaction_id) references refunds.transaction (shop, transaction_id),
    check ((confirmation is not null) = (state = 'confirmed')),
    check ((reason is not null) = (state = 'refused'))
);
create index if not exists refund_of_transaction on refunds.refund (shop, transaction_id);
create index if not exists refund_open on refunds.refund (shop) where state = 'recorded';
