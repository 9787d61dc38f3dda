with gone as (
    delete from probe.running r using unnest(p_ids, p_runs) u(id, run) where r.job_id = u.id and r.run = u.run
    returning r.job_id, r.run, r.attempt)
  select count(*) into n from gone;
