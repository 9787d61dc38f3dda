-- Everything that hudhud says was published; an aggregate is one of its tenant.
select id, (payload ->> 'number')::bigint, sequence, tenant_id || '/' || aggregate_id from hudhud.event where type = 'chaos.fact';
