-- Which of some jobs have ended for good: what everyone who waits for a job asks, in one statement for all of them.
-- Parameters: ids, at most a few hundred, of jobs that the callers may see (checked before they began to wait).
-- Returns: the ids among them that have a final outcome.
select distinct outcome.job_id as id
from hudhud.outcome_all outcome
where outcome.job_id = any (%(ids)s::uuid[])
  and outcome.outcome in ('succeed', 'fail', 'cancel')
