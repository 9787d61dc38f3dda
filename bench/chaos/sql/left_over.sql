-- What has not come to its end; unrouted: events that a subscription has still to get.
select (select count(*) from hudhud.ready) as ready, (select count(*) from hudhud.scheduled) as scheduled,
       (select count(*) from hudhud.waiting) as waiting, (select count(*) from hudhud.lease) as lease,
       greatest(0, (select count(*) from hudhud.subscription s join hudhud.event e on e.type = s.event_type)
                   - (select count(*) from chaos.routed)) as unrouted;
