-- The job that is due next of those that are not due yet.
-- Parameters: queues (null: all).
select scheduled.job_id
from hudhud.scheduled
where %(queues)s::text[] is null or scheduled.queue = any (%(queues)s::text[])
order by scheduled.available_at, scheduled.job_id
limit 1
