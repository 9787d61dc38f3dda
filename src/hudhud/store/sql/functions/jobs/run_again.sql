-- Make a new job of a dead one: the payload unchanged, or corrected when one is given, every option as it was; only an expiry
--   that is over is dropped, or the job would end at once.
-- Touches: job, ready, idempotency, audit. Called by: replay, resubmit.
create or replace function hudhud.run_again(
    dead_id uuid, corrected jsonb, action text, actor text, reason text, tenant_id text)
returns uuid language plpgsql
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    owner text := hudhud.owner_of(dead_id, run_again.tenant_id);
    dead hudhud.job_all%rowtype;
    next_id uuid := hudhud.new_id();
begin
    if coalesce(trim(reason), '') = '' then
        raise exception using errcode = 'HH001', message = 'Running a dead job again needs a reason.';
    end if;
    -- Two operators at once: the second waits here and then finds the first one's job.
    perform pg_advisory_xact_lock(hashtextextended('hudhud.run_again:' || dead_id, 0));
    select * into dead from hudhud.job_all j where j.id = dead_id;
    if not exists (select from hudhud.outcome_all o where o.job_id = dead_id and o.outcome = 'fail') then
        raise exception using errcode = 'HH007', message = format('Job %s is not dead.', dead_id);
    end if;
    if exists (
        select from hudhud.audit a
        where a.subject = dead_id::text and a.action in ('job.replay', 'job.resubmit')) then
        raise exception using errcode = 'HH007', message = format('Job %s has been run again already.', dead_id);
    end if;
    -- A correction has effects of its own: whoever makes one must know what became of the old ones.
    if corrected is not null and hudhud.has_open_effect(dead_id) then
        raise exception using errcode = 'HH007', message = format(
            'Nobody knows what became of an effect of job %s. Decide about it first: hudhud effects --unknown.', dead_id);
    end if;
    if corrected is not null then
        perform hudhud.refuse_payload(dead.type, dead.version, corrected);
    end if;

    insert into hudhud.job (
        id, shard, version, lane, max_attempts, created_at, expires_at, tenant_id, type, queue, payload, idempotency_key,
        correlation_id, traceparent, tags, root_id, replay_of, resubmit_of)
    values (
        next_id, dead.shard, dead.version, dead.lane, dead.max_attempts, hudhud.clock(),
        case when dead.expires_at > hudhud.clock() then dead.expires_at end, dead.tenant_id, dead.type, dead.queue,
        coalesce(corrected, dead.payload), dead.idempotency_key, dead.correlation_id, dead.traceparent, dead.tags,
        case when corrected is null then coalesce(dead.root_id, dead.id) end,
        case when corrected is null then dead.id end, case when corrected is not null then dead.id end);
    update hudhud.idempotency k set job_id = next_id where k.job_id = dead_id and k.use = 'enqueue';
    perform hudhud.put_back(next_id, 1, 0::smallint, 0::smallint, 2::smallint, '-infinity');
    perform hudhud.write_audit(actor, action, owner, dead_id::text, reason, jsonb_build_object('new_job', next_id));
    return next_id;
end $$;
