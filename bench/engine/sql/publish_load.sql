-- Placeholders: type, low, high. Events as publish writes them, one per number, in one transaction.
insert into hudhud.event (
    id, shard, version, epoch, position, xid, occurred_at, type, tenant_id, correlation_id, payload)
select e.id, 0, 1, 0, nextval('hudhud.event_position'), pg_current_xact_id(), clock_timestamp(), %(type)s, 'default', e.id::text,
       jsonb_build_object('i', e.n, 'user', 'user-' || e.n, 'template', 'welcome', 'pad', repeat('x', 40))
from (select n, uuidv7() as id from generate_series(%(low)s::bigint, %(high)s::bigint) n) e
