with held as materialized (
    select l.id, l.job_ids, l.runs, l.attempts from probe.lease l where l.shard = 0 and l.id = any(p_leases) order by l.id for key share),
  ended as (
    insert into probe.outcome (job_id, run, attempt, kind)
      select u.job_id, u.run, u.attempt, {{kind}} from held h, unnest(h.job_ids, h.runs, h.attempts) u(job_id, run, attempt)
    returning 1),
  gone as (delete from probe.lease l using held h where l.id = h.id and l.shard = 0)
  select count(*) into n from ended;
