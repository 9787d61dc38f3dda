-- Prolong leases that still hold work.
-- Returns: the leases that are still this worker's; one that is missing is lost. One that a finish or a rescue is working on
--   right now counts as renewed: whoever has it decides.
-- Touches: lease. Locks: skips locked rows, so it never waits. Called by: worker/lease.py.
create or replace function hudhud.renew(worker_id uuid, leases uuid[], lease_seconds integer, out renewed uuid[])
language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    present uuid[] := array(
        select l.id from hudhud.lease l where l.id = any (leases) and l.worker_id = renew.worker_id);
begin
    update hudhud.lease l
    set locked_until = hudhud.clock() + make_interval(secs => lease_seconds)
    where l.id = any (array(
        select x.id from hudhud.lease x
        where x.id = any (present) order by x.id for no key update skip locked));
    renewed := present;
end $$;
