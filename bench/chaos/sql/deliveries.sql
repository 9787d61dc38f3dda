-- What subscribers' handlers committed.
select event_id, subscription, job_id, run from chaos.delivery;
