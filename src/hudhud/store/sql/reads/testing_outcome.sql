-- What a run came to; no row when nothing is recorded. result is JSON text.
-- Parameters: job_id, run.
select outcome.outcome, outcome.code, outcome.result::text as result
from hudhud.outcome_all outcome
where outcome.job_id = %(job_id)s::uuid and outcome.run = %(run)s::integer
