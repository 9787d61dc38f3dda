delete from probe.job j where j.id = any(p_ids) and j.id between p_ids[1] and p_ids[cardinality(p_ids)]
    and j.lease_id = p_lease and j.status = 1;
