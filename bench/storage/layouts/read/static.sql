select array_agg(j.type), array_agg(j.payload) into types, payloads from (
    select x.type, x.payload from unnest(job_ids) with ordinality u(id, nr),
      lateral (select k.type, k.payload::text payload from probe.job k where k.id = u.id limit 1) x order by u.nr) j;
