-- Take a job out of ready, scheduled or waiting, whichever holds it; a row that a claim is taking is waited for.
-- Returns: one row, all null when the job is in none of them.
-- Touches: ready, scheduled, waiting. Called by: end_unclaimed, reschedule.
create or replace function hudhud.take_place(
    id uuid, out run integer, out attempt smallint, out crashes smallint, out queue text, out lane smallint, out tenant_id text)
language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
    -- Twice: a row that another transaction moves from place to place while we wait for it is met on the second pass.
    for pass in 1..2 loop
        delete from hudhud.ready r where r.job_id = take_place.id
        returning r.run, r.attempt, r.crashes, r.queue, r.lane, r.tenant_id
        into take_place.run, take_place.attempt, take_place.crashes, take_place.queue, take_place.lane, take_place.tenant_id;
        exit when found;
        delete from hudhud.scheduled s where s.job_id = take_place.id
        returning s.run, s.attempt, s.crashes, s.queue, s.lane, s.tenant_id
        into take_place.run, take_place.attempt, take_place.crashes, take_place.queue, take_place.lane, take_place.tenant_id;
        exit when found;
        delete from hudhud.waiting w where w.job_id = take_place.id
        returning w.run, w.attempt, w.crashes, w.queue, w.lane, w.tenant_id
        into take_place.run, take_place.attempt, take_place.crashes, take_place.queue, take_place.lane, take_place.tenant_id;
        exit when found;
    end loop;
end $$;
