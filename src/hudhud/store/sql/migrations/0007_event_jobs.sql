-- From an event to the jobs that were made of it. Of other jobs that have a field `event` it holds at most 36 characters each.
-- Building it reads the jobs there are; enqueues into them wait meanwhile.
create index job_event on hudhud.job (left(payload #>> '{event,id}', 36)) where payload ? 'event';
create index job_kept_event on hudhud.job_kept (left(payload #>> '{event,id}', 36)) where payload ? 'event';
