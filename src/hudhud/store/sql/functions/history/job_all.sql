-- Every job that still exists, whether its day's partition does or not.
create or replace view hudhud.job_all as
select * from hudhud.job
union all
select * from hudhud.job_kept kept
where not exists (select from hudhud.job where job.id = kept.id and job.shard = kept.shard);
