-- Effects: what was done in the outside world, or may have been, by its key. A row outlives every job that can carry its key.

create table hudhud.effect (
    id              uuid        not null,
    tenant_id       text        not null,
    key             text        not null,
    shard           smallint    not null,
    name            text        not null,
    provider        text        not null,
    -- What the provider offers to whoever does not know whether it acted.
    reconcile       text        not null check (reconcile in ('dedups', 'queryable', 'replaces', 'none')),
    -- Of the request: another one under the same key is refused.
    fingerprint     text        not null,
    -- The first job of its line of replays, and the job and run that came by last.
    root_id         uuid        not null,
    job_id          uuid        not null,
    run             integer     not null,
    -- intended: about to be sent, or being sent; unknown: nobody knows; done and not_done: closed.
    state           text        not null check (state in ('intended', 'unknown', 'done', 'not_done')),
    -- How often it was intended; whoever closes it names the number it knows of.
    sends           integer     not null check (sends > 0),
    -- Of whoever intended last: an intention whose answer was lost is asked for again under the same one.
    token           uuid        not null,
    -- The sender writes nothing after send_before; from reconcile_after on the provider has settled.
    send_before     timestamptz not null,
    reconcile_after timestamptz not null,
    reference       text,
    result          jsonb,
    code            text,
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    primary key (tenant_id, key, shard),
    check (reconcile_after >= send_before or state <> 'intended'),
    check (state = 'done' or (reference is null and result is null))
) partition by hash (tenant_id, key, shard);
create index effect_id on hudhud.effect (id);
create index effect_open on hudhud.effect (job_id) where state in ('intended', 'unknown');
do $$
begin
    for remainder in 0..7 loop
        execute format(
            'create table hudhud.effect_%s partition of hudhud.effect for values with (modulus 8, remainder %s)
             with (fillfactor = 70)', remainder, remainder);
    end loop;
end $$;

-- Closed effects are kept so long after they were made, and longer while a job can still carry their key.
alter table hudhud.setting add column keep_effects interval not null default '90 days';
-- Whether a replay can still carry it. Building it reads the jobs there are; enqueues into them wait meanwhile.
create index job_root on hudhud.job (root_id) where root_id is not null;
create index job_kept_root on hudhud.job_kept (root_id) where root_id is not null;
