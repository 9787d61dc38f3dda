-- A page of the contracts that workers announced, by type and version. Contracts belong to no tenant.
-- Parameters: after_type, after_version (null: from the start; else those of the last row seen); rows_max.
-- Returns: fields: name to JSON types and whether the field is needed; is_open: other fields are taken too.
select
    job_type.type,
    job_type.version::integer as version,
    job_type.queue,
    hudhud.lane_name(job_type.lane) as lane,
    job_type.max_attempts::integer as max_attempts,
    job_type.max_crashes::integer as max_crashes,
    (select coalesce(jsonb_agg(
         jsonb_build_object('name', field.name, 'types', trim(both '|' from field.types), 'needed', field.needed)), '[]')
     from unnest(job_type.field_names, job_type.field_types, job_type.field_needed) field(name, types, needed)) as fields,
    job_type.is_open,
    job_type.announced_at
from hudhud.job_type
where %(after_type)s::text is null
   or (job_type.type, job_type.version) > (%(after_type)s::text, %(after_version)s::integer)
order by job_type.type, job_type.version
limit %(rows_max)s
