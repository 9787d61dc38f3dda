-- The record, in its order. Instants as seconds.
select seq, extract(epoch from at)::double precision, xid, what, verb, lease_id, worker_id, job_ids, runs, outcome, code,
       extract(epoch from locked_until)::double precision
from chaos.entry order by seq;
