-- Record what became of an intention. The number of sends is the fence: who was overtaken by another send closes nothing.
-- Parameters: the effect, the `sends` that this is about, state: done | not_done | unknown. reference, result: the provider's, for
--   done. code: why, for the others. settle_seconds: how long the provider may still act, for a sender that has stopped sending.
-- Returns: false when the effect was sent anew or closed otherwise meanwhile. The same again is true: a lost answer may be asked for.
-- Touches: effect; waiting and ready for jobs that wait for it. Called by: worker/effect.py.
create or replace function hudhud.close_effect(
    effect_id uuid, sends integer, state text, reference text default null, result jsonb default null, code text default null,
    settle_seconds double precision default null)
returns boolean language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_variable
declare
    now timestamptz := hudhud.clock();
begin
    update hudhud.effect e
    set state = close_effect.state, reference = close_effect.reference, result = close_effect.result, code = close_effect.code,
        reconcile_after = case
            when close_effect.state = 'unknown' and settle_seconds is not null
                then least(e.reconcile_after, now + make_interval(secs => settle_seconds))
            else e.reconcile_after end,
        updated_at = now
    where e.id = effect_id and e.sends = close_effect.sends and e.state in ('intended', 'unknown');
    if found then
        -- Whoever waits for an operator because of it need not wait any longer.
        if close_effect.state <> 'unknown' then
            perform hudhud.free_held(array['effect:' || effect_id]);
        end if;
        return true;
    end if;
    return exists (
        select from hudhud.effect e
        where e.id = effect_id and e.sends = close_effect.sends and e.state = close_effect.state);
end $$;
