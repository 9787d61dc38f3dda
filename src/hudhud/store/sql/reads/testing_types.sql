-- How many jobs there are of each type, the most first.
-- Parameters: none.
select job.type, count(*) as jobs
from hudhud.job_all job
group by job.type
order by jobs desc, job.type
