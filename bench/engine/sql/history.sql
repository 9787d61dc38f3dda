-- Jobs that succeeded on one past day: rows of job and outcome as enqueue and finish would have left them.
-- Parameters: days back, how many, the number of the first.
with made as (
    insert into hudhud.job (
        id, shard, version, lane, max_attempts, created_at, tenant_id, type, queue, payload)
    select encode(
               overlay(uuid_send(hudhud.first_id(d.start + n.place * interval '80 seconds' / 1000))
                       placing substring(uuid_send(gen_random_uuid()) from 7 for 9) from 7 for 9), 'hex')::uuid,
           0, 1, 2, 20, d.start + n.place * interval '80 seconds' / 1000, 'default', 'noop', 'default',
           jsonb_build_object('i', n.place, 'user', 'user-' || n.place, 'template', 'welcome', 'pad', repeat('x', 40))
    from (select date_trunc('day', clock_timestamp(), 'UTC') - %(days_back)s * interval '1 day' as start) d,
         generate_series(%(first)s::bigint, %(first)s::bigint + %(amount)s - 1) n(place)
    returning id, created_at
)
insert into hudhud.outcome (job_id, run, shard, attempt, worker_id, claimed_at, finished_at, outcome)
select id, 1, 0, 1, '00000000-0000-0000-0000-000000000001', created_at, created_at + interval '1 second', 'succeed'
from made;
