-- Delete closed effects whose time is over since anybody came by, and whose key no job can carry any more: neither the first of
--   its line, nor the one that came by last, nor a replay of either.
-- Parameters: max_rows per call.
-- Returns: rows deleted; call again while it equals max_rows.
-- Touches: effect. Locks: skips what anybody has. Called by: worker/maintainer.py.
create or replace function hudhud.prune_effects(max_rows integer default 1000)
returns integer language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    over_at timestamptz := (select hudhud.clock() - s.keep_effects from hudhud.setting s);
    amount integer;
begin
    with over as materialized (
        select e.tenant_id, e.key, e.shard from hudhud.effect e
        where e.id < hudhud.first_id(over_at) and e.updated_at < over_at and e.state in ('done', 'not_done')
          and not exists (select from hudhud.job_all j where j.id = any (array[e.root_id, e.job_id]) offset 0)
          and not exists (select from hudhud.job_all j where j.root_id = any (array[e.root_id, e.job_id]) offset 0)
        order by e.id limit max_rows for update skip locked)
    delete from hudhud.effect e using over
    where e.tenant_id = over.tenant_id and e.key = over.key and e.shard = over.shard;
    get diagnostics amount = row_count;
    return amount;
end $$;
