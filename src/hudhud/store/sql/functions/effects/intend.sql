-- Commit the intention to change something outside, under the run's fence, before the first byte leaves; or learn what became
--   of an earlier intention under the same key.
-- Parameters: lease_id, place: the run. tenant_id, key, name, provider, reconcile, fingerprint: what the effect is. root_id: the
--   first job of the line of replays. send_seconds: how long the sender may still begin to write; settle_seconds: how long
--   after that the provider may still act. token: of this intention; the same again gets the same answer, should that have been
--   lost. after_send: the `sends` of an open effect that was looked into and is to be sent again.
-- Returns: verdict: send (go), done (its result is returned), open (of_provider may have done it: reconcile it, not before wait_seconds),
--   cancelled (the job was asked to be cancelled, so nothing new is sent), lost (the run has no lease any more, or has ended).
-- Raises: HH009 when the key was used for another request, which was done or may have been.
-- Touches: effect. Locks: the lease against a rescue, the effect's row. Called by: worker/effect.py.
create or replace function hudhud.intend(
    lease_id uuid, place integer, tenant_id text, key text, name text, provider text, reconcile text, fingerprint text,
    root_id uuid, send_seconds double precision, settle_seconds double precision, token uuid, after_send integer default null,
    out verdict text, out effect_id uuid, out sends integer, out reference text, out result jsonb, out of_provider text,
    out wait_seconds double precision)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
declare
    now timestamptz := hudhud.clock();
    of_shard smallint := hudhud.shard_of(root_id);
    due timestamptz := now + make_interval(secs => send_seconds);
    held record;
    is_cancelled boolean;
    known record;
begin
    select l.job_ids[place] as job_id, l.runs[place] as run into held
    from hudhud.lease l where l.id = intend.lease_id for key share;
    if not found or held.job_id is null or hudhud.has_ended(held.job_id, held.run) then
        verdict := 'lost';
        return;
    end if;
    is_cancelled := exists (select from hudhud.cancel_request c where c.job_id = held.job_id);

    loop
        if not is_cancelled then
            insert into hudhud.effect as e (
                id, tenant_id, key, shard, name, provider, reconcile, fingerprint, root_id, job_id, run, state, sends, token,
                send_before, reconcile_after, created_at, updated_at)
            values (
                hudhud.new_id(of_shard), tenant_id, key, of_shard, name, provider, reconcile, fingerprint, root_id, held.job_id,
                held.run, 'intended', 1, token, due, due + make_interval(secs => settle_seconds), now, now)
            on conflict do nothing
            returning e.id, e.sends into effect_id, sends;
            if found then
                verdict := 'send';
                return;
            end if;
        end if;
        select e.* into known from hudhud.effect e
        where e.tenant_id = intend.tenant_id and e.key = intend.key and e.shard = of_shard for update;
        exit when found;
        if is_cancelled then
            verdict := 'cancelled';
            return;
        end if;
        -- Pruned since the insert met it: try again.
    end loop;

    if known.fingerprint <> fingerprint and known.state <> 'not_done' then
        raise exception using errcode = 'HH009', message = format(
            'The effect %s has the key %s already, for another request. Give each request a key of its own.', known.name, key);
    end if;
    effect_id := known.id;
    sends := known.sends;
    of_provider := known.provider;
    if known.state = 'done' then
        verdict := 'done';
        reference := known.reference;
        result := known.result;
        -- The job that came by last keeps the record, too.
        update hudhud.effect e set job_id = held.job_id, run = held.run, updated_at = now
        where e.tenant_id = intend.tenant_id and e.key = intend.key and e.shard = of_shard and e.job_id <> held.job_id;
    elsif known.state = 'intended' and known.token = token then
        verdict := 'send';
    elsif known.state <> 'not_done' and known.sends is distinct from after_send then
        verdict := 'open';
        wait_seconds := greatest(extract(epoch from known.reconcile_after - now), 0);
        update hudhud.effect e set state = 'unknown', job_id = held.job_id, run = held.run, updated_at = now
        where e.tenant_id = intend.tenant_id and e.key = intend.key and e.shard = of_shard
          and (e.state, e.job_id, e.run) is distinct from ('unknown', held.job_id, held.run);
    -- Where only the same key again tells what became of it, that is what looking into it means.
    elsif is_cancelled and (known.state = 'not_done' or reconcile = 'queryable') then
        verdict := 'cancelled';
    else
        verdict := 'send';
        sends := known.sends + 1;
        update hudhud.effect e
        set state = 'intended', sends = intend.sends, token = intend.token, job_id = held.job_id, run = held.run,
            name = intend.name, provider = intend.provider, reconcile = intend.reconcile, fingerprint = intend.fingerprint,
            send_before = due,
            reconcile_after = due + make_interval(secs => settle_seconds), code = null, updated_at = now
        where e.tenant_id = intend.tenant_id and e.key = intend.key and e.shard = of_shard;
    end if;
end $$;
