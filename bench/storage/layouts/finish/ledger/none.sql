with held as (delete from probe.lease l where l.shard = 0 and l.id = any(p_leases) returning cardinality(l.job_ids) n)
  select coalesce(sum(h.n), 0) into n from held h;
