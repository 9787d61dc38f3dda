-- Take claimable jobs of some scan ranges for one worker, under one new lease. Commit at once.
-- Parameters: lanes, tenants, marks, quanta: one element per range, in the order of visiting; of each range at most quantum
--   jobs with a seq above its mark (0 = from the true start). lease_seconds: until the lease may be rescued. suspects: at most.
-- Returns: no row when nothing was found, else one row of arrays, jobs by id, which is by age. turns: the positions in the
--   order in which to start them, null when that is the same: only ranges of several lanes differ. tops and counts: per range the
--   highest seq of a first run and the number of jobs. xid and xmin: for the low-water mark (see worker/mark.py). expired:
--   positions of jobs past their expires_at, to be settled without a run. extras: what few jobs have, as JSON text, or null.
-- Suspects (their last run was lost) are claimed apart from others and before them: one that must be alone alone, of the
--   others as many as the worker asks for. While a worker tries some it gets no more of them; see tries_suspect.
-- Its own transaction, which need not wait for the disk.
-- Touches: ready, lease, job, job_kept. Locks: ready rows, skipping locked ones. Called by: worker/claimer.py.
create or replace function hudhud.claim(
    worker_id uuid, queue text, lanes smallint[], tenants text[], marks bigint[], quanta integer[], lease_seconds integer,
    shard integer default 0, suspects integer default 1,
    out lease_id uuid, out xid bigint, out xmin bigint, out tops bigint[], out counts integer[], out expired integer[],
    out turns integer[],
    out job_ids uuid[], out runs integer[], out attempts smallint[], out crashes smallint[], out types text[],
    out versions smallint[], out tenant_ids text[], out payloads text[], out max_attempts smallint[], out extras text[])
returns setof record language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
declare
    now timestamptz := hudhud.clock();
    is_suspect boolean := false;
    has_back boolean;
    has_lanes boolean := lanes[1] <> any (lanes);
begin
    -- A claim that a crash of the server takes back only returns its jobs; what follows it durably makes it durable.
    perform set_config('synchronous_commit', 'off', true);
    if exists (select from hudhud.ready r where r.shard = claim.shard and r.queue = claim.queue and r.line <= 0)
       and not hudhud.tries_suspect(worker_id, shard) then
        with alone as materialized (
            select r.ctid from hudhud.ready r
            where r.shard = claim.shard and r.queue = claim.queue and r.line = -1
            order by r.lane, r.tenant_id, r.seq
            limit 1
            for update skip locked
        ), together as materialized (
            select r.ctid from hudhud.ready r
            where r.shard = claim.shard and r.queue = claim.queue and r.line = 0
            order by r.lane, r.tenant_id, r.seq
            limit case when exists (select from alone) then 0 else suspects end
            for update skip locked
        ), taken as (
            delete from hudhud.ready r
            where r.ctid = any (array(select ctid from alone union all select ctid from together))
            returning r.job_id, r.run, (r.attempt + 1)::smallint as attempt, r.crashes
        )
        select array_agg(t.job_id order by t.job_id), array_agg(t.run order by t.job_id),
               array_agg(t.attempt order by t.job_id), array_agg(t.crashes order by t.job_id)
        into job_ids, runs, attempts, crashes from taken t;
        is_suspect := job_ids is not null;
    end if;

    if job_ids is null then
        has_back := exists (
            select from hudhud.ready r where r.shard = claim.shard and r.queue = claim.queue and r.line = 1);
        -- A plain IN (SELECT … LIMIT n) may lock more than its limit; a materialized one may not.
        with asked as materialized (
            select * from unnest(lanes, tenants, marks, quanta) with ordinality a(lane, tenant_id, mark, quantum, n)
        ), back as materialized (
            select picked.ctid, a.n
            from asked a, lateral (
                select r.ctid from hudhud.ready r
                where r.shard = claim.shard and r.queue = claim.queue and r.line = 1
                  and r.lane = a.lane and r.tenant_id = a.tenant_id
                order by r.seq
                limit case when has_back then a.quantum else 0 end
                for update skip locked) picked
        ), fresh as materialized (
            select picked.ctid
            from asked a, lateral (
                select r.ctid from hudhud.ready r
                where r.shard = claim.shard and r.queue = claim.queue and r.line = 2
                  and r.lane = a.lane and r.tenant_id = a.tenant_id and r.seq > a.mark
                order by r.seq
                limit a.quantum - case when has_back then (select count(*) from back where back.n = a.n) else 0 end
                for update skip locked) picked
        ), taken as (
            delete from hudhud.ready r
            where r.ctid = any (array(select ctid from back union all select ctid from fresh))
            returning r.line, r.lane, r.tenant_id, r.seq, r.job_id, r.run, (r.attempt + 1)::smallint as attempt, r.crashes
        ), per_range as (
            select a.n, max(t.seq) filter (where t.line = 2) as top, count(t.seq)::integer as found
            from asked a left join taken t on t.lane = a.lane and t.tenant_id = a.tenant_id
            group by a.n
        ), numbered as (
            select t.*, row_number() over (order by t.job_id)::integer as n from taken t
        )
        select array_agg(t.job_id order by t.n), array_agg(t.run order by t.n), array_agg(t.attempt order by t.n),
               array_agg(t.crashes order by t.n),
               case when has_lanes then (select array_agg(u.n order by u.lane, u.line, u.seq) from numbered u) end,
               (select array_agg(p.top order by p.n) from per_range p), (select array_agg(p.found order by p.n) from per_range p)
        into job_ids, runs, attempts, crashes, turns, tops, counts
        from numbered t;
    end if;
    if job_ids is null then
        return;
    end if;

    lease_id := gen_random_uuid();
    insert into hudhud.lease (id, shard, worker_id, claimed_at, locked_until, queue, job_ids, runs, attempts, crashes, is_suspect)
    values (lease_id, shard, worker_id, now, now + make_interval(secs => lease_seconds), queue, job_ids, runs, attempts, crashes,
            is_suspect);
    xid := pg_current_xact_id()::text::bigint;
    xmin := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

    select f.types, f.versions, f.tenant_ids, f.payloads, f.max_attempts, f.extras, f.expired
    into types, versions, tenant_ids, payloads, max_attempts, extras, expired
    from hudhud.fetch_jobs(job_ids, now) f;
    return next;
end $$;
