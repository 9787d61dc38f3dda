-- Every queue with its depth, its oldest ready job and its workers, at a cost that does not grow with the backlog.
-- Parameters: tenant_id (null: all tenants, for operators; workers are shown to operators only); count_max: counting stops
--   there; seen_seconds: a worker counts as alive when it was seen within them.
-- Returns: by name: name, is_strict, ready, scheduled, waiting, running, dead, oldest_ready_seconds (null: none ready),
--   workers, and is_capped: some count stopped at count_max and is a lower bound.
with recursive
known(name) as (
    select min(range.queue) from hudhud.range where range.shard = 0
    union all
    select (select min(range.queue) from hudhud.range where range.shard = 0 and range.queue > known.name)
    from known
    where known.name is not null
),
named as (
    select known.name from known where known.name is not null
    union
    select queue.name from hudhud.queue
    union
    select job_type.queue from hudhud.job_type
    union
    select recent.queue from (select range_new.queue from hudhud.range_new limit 1000) recent
),
scheduled_sample as materialized (
    select scheduled.queue, scheduled.tenant_id from hudhud.scheduled limit %(count_max)s
),
waiting_sample as materialized (
    select waiting.queue, waiting.tenant_id from hudhud.waiting limit %(count_max)s
),
held_sample as materialized (
    select lease.queue, held.job_id, held.run
    from hudhud.lease
    cross join lateral unnest(lease.job_ids, lease.runs) held(job_id, run)
    limit %(count_max)s
),
dead_sample as materialized (
    select outcome.job_id from hudhud.outcome_all outcome where outcome.outcome = 'fail' limit %(count_max)s
),
scheduled as (
    select scheduled_sample.queue, count(*) as count
    from scheduled_sample
    where %(tenant_id)s::text is null or scheduled_sample.tenant_id = %(tenant_id)s::text
    group by scheduled_sample.queue
),
waiting as (
    select waiting_sample.queue, count(*) as count
    from waiting_sample
    where %(tenant_id)s::text is null or waiting_sample.tenant_id = %(tenant_id)s::text
    group by waiting_sample.queue
),
running as (
    select held_sample.queue, count(*) as count
    from held_sample
    where not exists (
            select from hudhud.outcome_all outcome
            where outcome.job_id = held_sample.job_id and outcome.run = held_sample.run)
      and (%(tenant_id)s::text is null or exists (
            select from hudhud.job_all job
            where job.id = held_sample.job_id and job.tenant_id = %(tenant_id)s::text))
    group by held_sample.queue
),
dead as (
    select job.queue, count(*) as count
    from dead_sample
    cross join lateral (select * from hudhud.job_all where job_all.id = dead_sample.job_id limit 1) job
    where %(tenant_id)s::text is null or job.tenant_id = %(tenant_id)s::text
    group by job.queue
),
counted as (
    select
        named.name,
        ready.count as ready,
        coalesce(scheduled.count, 0) as scheduled,
        coalesce(waiting.count, 0) as waiting,
        coalesce(running.count, 0) as running,
        coalesce(dead.count, 0) as dead
    from named
    left join scheduled on scheduled.queue = named.name
    left join waiting on waiting.queue = named.name
    left join running on running.queue = named.name
    left join dead on dead.queue = named.name
    cross join lateral (
        select count(*) as count
        from (
            select
            from generate_series(-1, 2) line(number)
            cross join generate_series(0, 3) lane(number)
            cross join lateral (
                select
                from hudhud.ready
                where ready.shard = 0 and ready.queue = named.name
                  and ready.line = line.number and ready.lane = lane.number
                  and (%(tenant_id)s::text is null or ready.tenant_id = %(tenant_id)s::text)
            ) one
            limit %(count_max)s
        ) ready_rows
    ) ready
    where %(tenant_id)s::text is null or ready.count > 0 or scheduled.count > 0 or waiting.count > 0 or running.count > 0
       or dead.count > 0
)
select
    counted.name,
    coalesce(queue.is_strict, false) as is_strict,
    counted.ready,
    counted.scheduled,
    counted.waiting,
    counted.running,
    counted.dead,
    extract(epoch from hudhud.clock() - oldest.since)::double precision as oldest_ready_seconds,
    case when %(tenant_id)s::text is null then (
        select count(*)
        from hudhud.worker
        where counted.name = any (worker.queues)
          and worker.seen_at > hudhud.clock() - make_interval(secs => %(seen_seconds)s)
    ) end as workers,
    %(count_max)s <= greatest(
        counted.ready, (select count(*) from scheduled_sample), (select count(*) from waiting_sample),
        (select count(*) from held_sample), (select count(*) from dead_sample)) as is_capped
from counted
left join hudhud.queue on queue.name = counted.name
cross join lateral (
    -- The head of each scan range: of the first so many ranges, for there is one for each tenant.
    select min(coalesce(
        (select max(outcome.finished_at) from hudhud.outcome_all outcome where outcome.job_id = head.job_id),
        greatest(job.created_at, job.available_at))) as since
    from (
        (select range.lane, range.tenant_id
         from hudhud.range
         where range.shard = 0 and range.queue = counted.name
           and (%(tenant_id)s::text is null or range.tenant_id = %(tenant_id)s::text)
         limit 500)
        union
        (select recent.lane, recent.tenant_id
         from (select range_new.* from hudhud.range_new limit 1000) recent
         where recent.queue = counted.name
           and (%(tenant_id)s::text is null or recent.tenant_id = %(tenant_id)s::text))
    ) range
    cross join generate_series(-1, 2) line(number)
    cross join lateral (
        select ready.job_id
        from hudhud.ready
        where ready.shard = 0 and ready.queue = counted.name and ready.line = line.number and ready.lane = range.lane
          and ready.tenant_id = range.tenant_id
        order by ready.seq
        limit 1
    ) head
    join hudhud.job_all job on job.id = head.job_id
) oldest
order by counted.name
