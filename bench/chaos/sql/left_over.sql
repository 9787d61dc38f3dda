-- What has not come to its end.
select (select count(*) from hudhud.ready) as ready, (select count(*) from hudhud.scheduled) as scheduled,
       (select count(*) from hudhud.waiting) as waiting, (select count(*) from hudhud.lease) as lease;
