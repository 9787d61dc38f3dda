-- Make jobs claimable that were held: no worker could run their type and version, or nobody knew what became of an effect.
-- Touches: waiting, ready. Called by: announce, stage, close_effect, decide_effect.
create or replace function hudhud.free_held(contracts text[], held_before timestamptz default 'infinity')
returns integer language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
declare
    freed record;
    amount integer := 0;
begin
    for freed in
        delete from hudhud.waiting w
        where w.ctid = any (array(
            select x.ctid from hudhud.waiting x
            where x.waits_for = 'hold' and x.contract = any (contracts) and x.since < held_before
            order by x.job_id limit 1000 for update skip locked))
        returning w.job_id, w.run, w.attempt, w.crashes
    loop
        perform hudhud.put_back(
            freed.job_id, freed.run, freed.attempt, freed.crashes,
            case when hudhud.is_suspect(freed.job_id, freed.run) then -1 else 1 end::smallint, '-infinity');
        amount := amount + 1;
    end loop;
    return amount;
end $$;
