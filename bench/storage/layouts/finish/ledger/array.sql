with held as (delete from probe.lease l where l.shard = 0 and l.id = any(p_leases) returning l.id, l.job_ids, l.runs),
  ended as (insert into probe.outcome_batch (lease_id, finished_at, job_ids, runs)
    select h.id, clock_timestamp(), h.job_ids, h.runs from held h returning cardinality(job_ids) n)
  select coalesce(sum(e.n), 0) into n from ended e;
