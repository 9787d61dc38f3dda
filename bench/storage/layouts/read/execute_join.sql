lo := job_ids[1];
  hi := job_ids[cardinality(job_ids)];
  execute format($q$select array_agg(j.type), array_agg(j.payload) from (
    select k.type, k.payload::text payload from unnest($1) with ordinality u(id, nr) join probe.job k on k.id = u.id
    where k.id between %L and %L order by u.nr) j$q$, lo, hi) into types, payloads using job_ids;
