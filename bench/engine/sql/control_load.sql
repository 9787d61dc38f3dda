with made as (
    insert into control.job (id, type, queue, lane, tenant_id, payload)
    select hudhud.new_id(), 'noop', 'default', 2, 'default',
           jsonb_build_object('i', n, 'user', 'user-' || n, 'template', 'welcome', 'pad', repeat('x', 40))
    from generate_series(%(low)s::bigint, %(high)s::bigint) n
    returning id, lane, queue, tenant_id
)
insert into control.ready (job_id, lane, queue, tenant_id) select id, lane, queue, tenant_id from made;
