-- Delete closed effects whose time is over and whose key no job can carry any more, neither the first of its line nor a replay.
-- Parameters: max_rows per call.
-- Returns: rows deleted; call again while it equals max_rows.
-- Touches: effect. Locks: skips what anybody has. Called by: worker/maintainer.py.
create or replace function hudhud.prune_effects(max_rows integer default 1000)
returns integer language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    beyond uuid := (select hudhud.first_id(hudhud.clock() - s.keep_effects) from hudhud.setting s);
    amount integer;
begin
    with over as materialized (
        select e.tenant_id, e.key, e.shard from hudhud.effect e
        where e.id < beyond and e.state in ('done', 'not_done')
          and not exists (select from hudhud.job_all j where j.id = e.root_id offset 0)
          and not exists (select from hudhud.job_all j where j.id = e.job_id offset 0)
          and not exists (select from hudhud.job_all j where j.root_id = e.root_id offset 0)
        order by e.id limit max_rows for update skip locked)
    delete from hudhud.effect e using over
    where e.tenant_id = over.tenant_id and e.key = over.key and e.shard = over.shard;
    get diagnostics amount = row_count;
    return amount;
end $$;
