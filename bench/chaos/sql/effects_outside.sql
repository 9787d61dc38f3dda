-- Every effect in the world outside, as hudhud knows it.
select key, state, sends, job_id, result, code, reconcile from hudhud.effect;
