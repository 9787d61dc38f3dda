-- Every job of the load.
select id, type, payload from hudhud.job_all where type like 'chaos.%' order by id;
