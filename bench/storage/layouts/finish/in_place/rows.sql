update probe.job j set status = 2, finished_at = clock_timestamp(), lease_id = null, locked_until = null
  where j.id = any(p_ids) and j.id between p_ids[1] and p_ids[cardinality(p_ids)]
    and j.lease_id = p_lease and j.status = 1;
