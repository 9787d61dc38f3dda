lo := job_ids[1];
  hi := job_ids[cardinality(job_ids)];
  select array_agg(j.type), array_agg(j.payload) into types, payloads from (
    select k.type, k.payload::text payload from probe.job k where k.id = any(job_ids) and k.id between lo and hi order by k.id) j;
