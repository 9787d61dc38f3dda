-- Write every end of a run but a plain success, and put what goes on back in its place.
-- Parameters: held: leases whose rows the caller has locked. settlements: objects with lease, position (1-based), outcome
--   (succeed | retry | snooze | fail | cancel | hand_back), and where they apply: code, class, error, fingerprint, result,
--   delay_seconds, class_attempts_max, age_seconds_max, effect. kept_below: as the caller read it when it had the locks.
-- A retry ends the job instead when it was asked to be cancelled (cancel), when another job took its key (fail, superseded),
--   or when attempts, attempts of its class or age are used up (fail). Hand-back and snooze do not burn the attempt.
--   A delay is at most ten years. A hand-back with code no_handler waits until a worker announces the type, a snooze with an
--   effect until an operator has decided about that.
-- Returns: outcomes written. Passed over: what is of no held lease, of no position in it, of no such outcome, and what names a
--   run that has ended; of two that name one run the first counts.
-- Touches: outcome, outcome_kept, ready, scheduled, waiting. Called by: finish.
create or replace function hudhud.settle_runs(held uuid[], settlements jsonb, now timestamptz, kept_below uuid)
returns integer language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    ask record;
    decided record;
    amount integer := 0;
begin
    for ask in
        select s.*, l.job_ids[s.position] as job_id, l.runs[s.position] as run, l.attempts[s.position] as attempt,
               l.crashes[s.position] as crashes, l.shard, l.worker_id, l.claimed_at
        from rows from (jsonb_to_recordset(settlements) as (
            lease uuid, position integer, outcome text, code text, class text, error text, fingerprint text, result jsonb,
            delay_seconds double precision, class_attempts_max integer, age_seconds_max double precision, effect uuid))
            with ordinality as s
        join hudhud.lease l on l.id = s.lease
        where l.id = any (held) and l.job_ids[s.position] is not null
          and s.outcome in ('succeed', 'retry', 'snooze', 'fail', 'cancel', 'hand_back')
        order by l.job_ids[s.position], s.ordinality
    loop
        -- Against a cancel that looks at the run just now: it waits for us and cancels the job, or we see its request.
        if ask.outcome in ('retry', 'snooze', 'hand_back') then
            perform pg_advisory_xact_lock_shared(hashtextextended('hudhud.cancel:' || ask.lease, 0));
        end if;
        select * into decided from hudhud.decide_end(
            ask.job_id, ask.outcome, ask.code, ask.class, ask.attempt, ask.class_attempts_max, ask.age_seconds_max, now);
        continue when not hudhud.write_end(
            ask.job_id, ask.run, ask.attempt, ask.worker_id, ask.claimed_at, now, decided.outcome, decided.code, ask.class,
            ask.error, ask.fingerprint, ask.result, settle_runs.kept_below);
        amount := amount + 1;
        if decided.outcome = 'snooze' and ask.effect is not null then
            perform hudhud.hold_for_effect(ask.job_id, ask.run + 1, (ask.attempt - 1)::smallint, ask.crashes, ask.effect);
        elsif decided.outcome in ('retry', 'snooze', 'hand_back') then
            perform hudhud.put_back(
                ask.job_id, ask.run + 1,
                (case decided.outcome when 'retry' then ask.attempt else ask.attempt - 1 end)::smallint,
                ask.crashes,
                case when decided.outcome = 'hand_back' and hudhud.is_suspect(ask.job_id, ask.run) then -1 else 1 end::smallint,
                now + make_interval(secs => least(greatest(coalesce(ask.delay_seconds, 0), 0), 3660 * 86400.0)),
                decided.code = 'no_handler' and decided.outcome = 'hand_back');
        end if;
    end loop;
    return amount;
end $$;
