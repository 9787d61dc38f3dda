-- Some jobs that are about to be claimed.
select job_id from hudhud.ready order by random() limit 3;
