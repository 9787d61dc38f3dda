-- Hint to workers that a queue has work, unless one of them is polling hard anyway.
-- PostgreSQL folds equal hints of one transaction into one.
-- Called by: whatever makes a job claimable.
create or replace function hudhud.wake(queue text)
returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (select from hudhud.queue q where q.name = wake.queue and q.busy_until > clock_timestamp()) then
        perform pg_notify('hudhud', wake.queue);
    end if;
end $$;
