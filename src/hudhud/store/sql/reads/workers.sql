-- The workers that were seen lately, the newest first. Shows operators everything; workers belong to no tenant.
-- Parameters: seen_seconds: how long ago they may have been seen; rows_max.
select
    worker.id, worker.name, worker.host, worker.pid, worker.queues, worker.release, worker.started_at, worker.seen_at,
    extract(epoch from hudhud.clock() - worker.seen_at)::double precision as seen_seconds_ago
from hudhud.worker
where worker.seen_at > hudhud.clock() - make_interval(secs => %(seen_seconds)s)
order by worker.started_at desc, worker.id
limit %(rows_max)s
