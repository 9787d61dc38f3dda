-- Keys of two more uses: an HTTP request that was answered, an event that a consumer has taken in.
-- Nothing is scanned: every key that is there satisfies the new conditions, as it is a job's.

alter table hudhud.idempotency
    alter column job_id drop not null,
    -- Of the request, another one under the same key is refused; and what it was answered: status, headers, body.
    add column fingerprint bytea,
    add column answer jsonb,
    -- Effects have a table of their own.
    drop constraint idempotency_use_check,
    add constraint idempotency_use_check check (use in ('enqueue', 'http', 'inbox')) not valid,
    add constraint idempotency_job_check check ((use = 'enqueue') = (job_id is not null)) not valid,
    add constraint idempotency_answer_check
        check (num_nonnulls(fingerprint, answer) = case use when 'http' then 2 else 0 end) not valid;

alter table hudhud.setting
    add column keep_answers interval not null default '24 hours',
    add column keep_inbox   interval not null default '28 days';
