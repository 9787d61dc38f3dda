-- Which fields of the event that a subscription's job carries tell something about a person.
-- Parameters: id.
-- Returns: no row when it carries none, or one: personal_fields, of the payload inside the event.
select event_type.personal_fields
from hudhud.job_all job
join hudhud.subscription on subscription.job_type = job.type
join hudhud.event_type on event_type.type = job.payload #>> '{event,type}'
    and event_type.version::text = job.payload #>> '{event,version}'
where job.id = %(id)s::uuid and cardinality(event_type.personal_fields) > 0
  and jsonb_typeof(job.payload #> '{event,payload}') = 'object'
limit 1
