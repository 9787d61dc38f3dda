-- Every job that a relay made, in the order in which it did.
select r.seq, j.type, (j.payload -> 'event' ->> 'id')::uuid, j.id
from chaos.routed r join hudhud.job_all j on j.id = r.job_id order by r.seq;
