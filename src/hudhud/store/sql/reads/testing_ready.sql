-- The scan range of the job that a drain runs next: suspects first, then jobs that come back, then by urgency and age.
-- Parameters: queues (null: all).
select ready.queue, ready.lane, ready.tenant_id
from hudhud.ready
where %(queues)s::text[] is null or ready.queue = any (%(queues)s::text[])
order by ready.line, ready.lane, ready.seq
limit 1
