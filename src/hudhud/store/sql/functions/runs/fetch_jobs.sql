-- What the jobs of a claim ask for, as arrays in the order of ids.
-- Parameters: ids ascending.
-- Returns: one row; nulls for a job whose row somebody deleted. expired: positions of jobs whose expires_at is not after now,
--   null when none is.
-- Touches: job; job_kept for jobs whose day is gone. Called by: claim.
create or replace function hudhud.fetch_jobs(
    ids uuid[], now timestamptz,
    out types text[], out versions smallint[], out tenant_ids text[], out payloads text[], out max_attempts smallint[],
    out extras text[], out expired integer[])
language plpgsql stable
-- One plan for all calls: the bounds leave out the days that hold none of the ids when it runs, not when it is made.
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    lowest uuid := ids[1];
    highest uuid := ids[cardinality(ids)];
begin
    -- Nearly always all are of one day or two: one index scan per day.
    if hudhud.id_time(highest) - hudhud.id_time(lowest) < interval '1 day' then
        select array_agg(j.type order by j.id), array_agg(j.version order by j.id), array_agg(j.tenant_id order by j.id),
               array_agg(j.payload::text order by j.id), array_agg(j.max_attempts order by j.id),
               array_agg(hudhud.job_extras(j.idempotency_key, j.correlation_id, j.traceparent, j.tags, j.root_id, j.expires_at) order by j.id),
               array_agg(array_position(ids, j.id) order by j.id) filter (where j.expires_at <= now)
        into types, versions, tenant_ids, payloads, max_attempts, extras, expired
        from hudhud.job j
        where j.id = any (ids) and j.id between lowest and highest;
        if cardinality(types) = cardinality(ids) then
            return;
        end if;
    end if;
    -- Some are older, or their day is gone: each by itself, because reading a range would read every job in between.
    select array_agg(j.type order by asked.n), array_agg(j.version order by asked.n), array_agg(j.tenant_id order by asked.n),
           array_agg(j.payload::text order by asked.n), array_agg(j.max_attempts order by asked.n),
           array_agg(j.extras order by asked.n), array_agg(asked.n::integer order by asked.n) filter (where j.expires_at <= now)
    into types, versions, tenant_ids, payloads, max_attempts, extras, expired
    from unnest(ids) with ordinality asked(id, n)
    left join lateral (
        (select x.type, x.version, x.tenant_id, x.payload, x.max_attempts, x.expires_at, hudhud.job_extras(x.idempotency_key, x.correlation_id, x.traceparent, x.tags, x.root_id, x.expires_at) as extras
         from hudhud.job x where x.id = asked.id and x.id between lowest and highest limit 1)
        union all
        (select x.type, x.version, x.tenant_id, x.payload, x.max_attempts, x.expires_at, hudhud.job_extras(x.idempotency_key, x.correlation_id, x.traceparent, x.tags, x.root_id, x.expires_at) as extras
         from hudhud.job_kept x where x.id = asked.id limit 1)
        limit 1) j on true;
end $$;
