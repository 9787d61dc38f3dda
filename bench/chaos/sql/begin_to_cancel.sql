-- Cancel a job, in a transaction that is going to be rolled back.
select hudhud.cancel(job_id => %(job_id)s, actor => 'chaos');
