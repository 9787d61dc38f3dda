-- What the jobs of a claim ask for, as arrays in the order of ids.
-- Returns: one row; nulls for a job whose row somebody deleted. expired: positions of jobs whose expires_at is not after now, null when none is.
-- Touches: job; job_kept for jobs whose day is gone. Called by: claim.
create or replace function hudhud.fetch_jobs(
    ids uuid[], now timestamptz,
    out types text[], out versions smallint[], out tenant_ids text[], out payloads text[], out max_attempts smallint[],
    out extras text[], out expired integer[])
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
    lowest uuid := (select id from unnest(ids) id order by id limit 1);
    highest uuid := (select id from unnest(ids) id order by id desc limit 1);
    source text := case when lowest < (select s.kept_below from hudhud.setting s) then 'job_all' else 'job' end;
begin
    -- Literal bounds, so that the planner leaves out the days that hold none of them; LIMIT 1 per id, because a join over
    -- the bounds would read every job between an old one and a new one.
    execute format($query$
        select array_agg(j.type order by asked.n), array_agg(j.version order by asked.n), array_agg(j.tenant_id order by asked.n),
               array_agg(j.payload::text order by asked.n), array_agg(j.max_attempts order by asked.n),
               array_agg(j.extras order by asked.n), array_agg(asked.n::integer order by asked.n) filter (where j.expires_at <= $2)
        from unnest($1) with ordinality asked(id, n) left join lateral (
            select j.type, j.version, j.tenant_id, j.payload, j.max_attempts, j.expires_at,
                   case when coalesce(j.idempotency_key, j.correlation_id, j.traceparent, j.tags[1], j.root_id::text,
                                      j.expires_at::text) is not null
                   then jsonb_strip_nulls(jsonb_build_object(
                       'idempotency_key', j.idempotency_key, 'correlation_id', j.correlation_id,
                       'traceparent', j.traceparent, 'tags', to_jsonb(j.tags), 'root_id', j.root_id,
                       'expires_at', j.expires_at))::text
                   end as extras
            from hudhud.%I j
            where j.id = asked.id and j.id between %L and %L
            limit 1) j on true$query$, source, lowest, highest)
    into types, versions, tenant_ids, payloads, max_attempts, extras, expired
    using ids, now;
end $$;
