lo := job_ids[1];
  hi := job_ids[cardinality(job_ids)];
  execute format($q$select array_agg(j.type), array_agg(j.payload) from (
    select x.type, x.payload from unnest($1) with ordinality u(id, nr),
      lateral (select k.type, k.payload::text payload from probe.job k where k.id = u.id and k.id between %L and %L limit 1) x
    order by u.nr) j$q$, lo, hi) into types, payloads using job_ids;
