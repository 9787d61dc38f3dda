-- Whether a lease that was taken before this server started holds a run that has not ended.
select exists (
    select from hudhud.lease l, unnest(l.job_ids, l.runs) r(job_id, run)
    where l.claimed_at < pg_postmaster_start_time()
      and not exists (select from hudhud.outcome o where o.job_id = r.job_id and o.run = r.run));
