-- Decide as an operator what became of an effect that nobody can ask the provider about, and let the jobs go on that wait for it.
-- Parameters: decision: done | not_done. result: what the provider would have answered, for done. actor and reason for the audit.
--   tenant_id: the caller's, null for an operator across tenants.
-- Returns: jobs that go on now. A dead job does not: it can be replayed, and the decision holds for the replay.
-- Raises: HH001 no actor, reason or such decision; HH002 a result that is too large; HH006 not there (or another tenant's); HH007 closed already, or perhaps still under way.
-- Touches: effect, waiting, ready, audit. Locks: the effect's row. Called by: `hudhud effects decide`.
create or replace function hudhud.decide_effect(
    effect_id uuid, decision text, actor text, reason text, result jsonb default null, tenant_id text default null)
returns integer language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
declare
    now timestamptz := hudhud.clock();
    known record;
begin
    perform hudhud.check_actor(actor);
    if coalesce(trim(reason), '') = '' then
        raise exception using errcode = 'HH001', message = 'A decision about an effect needs a reason.';
    elsif decision is null or decision not in ('done', 'not_done') then
        raise exception using errcode = 'HH001', message = format('An effect is decided as done or not_done, not as %L.', decision);
    elsif decision = 'not_done' and result is not null then
        raise exception using errcode = 'HH001', message = 'Only what was done has a result.';
    elsif octet_length(result::text) > (select s.result_bytes_max from hudhud.setting s) then
        raise exception using errcode = 'HH002', message = format(
            'The result has %s bytes; at most %s are kept.', octet_length(result::text), (select s.result_bytes_max from hudhud.setting s));
    end if;
    select e.* into known from hudhud.effect e
    where e.id = effect_id and e.tenant_id = coalesce(decide_effect.tenant_id, e.tenant_id) for update;
    if not found then
        raise exception using errcode = 'HH006', message = format('There is no effect %s.', effect_id);
    elsif known.state not in ('intended', 'unknown') then
        raise exception using errcode = 'HH007', message = format('Effect %s is %s; there is nothing to decide.', effect_id, known.state);
    elsif known.reconcile_after > now then
        raise exception using errcode = 'HH007', message = format(
            'Effect %s may still be under way until %s; decide after that.', effect_id, known.reconcile_after);
    end if;
    update hudhud.effect e
    set state = decision, result = decide_effect.result, code = 'decided', updated_at = now
    where e.id = effect_id;
    perform hudhud.write_audit(actor, 'effect.decide', known.tenant_id, effect_id::text, reason,
        jsonb_build_object('decision', decision, 'job', known.job_id, 'name', known.name, 'sends', known.sends));
    return hudhud.free_held(array['effect:' || effect_id]);
end $$;
