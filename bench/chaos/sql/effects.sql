-- Every effect that was committed.
select job_id, run from chaos.effect;
