-- Whether a worker holds a lease with a run that has not ended.
select exists (
    select from hudhud.lease l, unnest(l.job_ids, l.runs) r(job_id, run)
    where l.worker_id = %(worker_id)s
      and not exists (select from hudhud.outcome o where o.job_id = r.job_id and o.run = r.run));
