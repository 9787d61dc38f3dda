-- Every line written about a run that is still known.
create or replace view hudhud.log_all as
select job_id, run, line, at, level, message, progress from hudhud.log
union all
select job_id, run, line, at, level, message, progress from hudhud.log_kept kept
where not exists (select from hudhud.log where log.job_id = kept.job_id and log.line = kept.line);
