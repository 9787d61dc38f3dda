-- How many jobs wait for their time, or for a worker that knows their type.
-- Parameters: queues (null: all).
select
    (select count(*) from hudhud.scheduled
     where %(queues)s::text[] is null or scheduled.queue = any (%(queues)s::text[]))
    + (select count(*) from hudhud.waiting
       where %(queues)s::text[] is null or waiting.queue = any (%(queues)s::text[])) as jobs
