-- Every ended run that is still known.
create or replace view hudhud.outcome_all as
select * from hudhud.outcome
union all
select * from hudhud.outcome_kept kept
where not exists (
    select from hudhud.outcome
    where outcome.job_id = kept.job_id and outcome.run = kept.run and outcome.shard = kept.shard);
