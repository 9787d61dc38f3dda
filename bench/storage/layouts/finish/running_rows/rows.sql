with gone as (
    delete from probe.running r using unnest(p_ids, p_runs) u(id, run) where r.job_id = u.id and r.run = u.run
    returning r.job_id, r.run, r.attempt),
  ended as (
    insert into probe.outcome (job_id, run, attempt, kind) select g.job_id, g.run, g.attempt, 1 from gone g returning 1)
  select count(*) into n from ended;
