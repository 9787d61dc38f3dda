-- The number of the newest migration that this database has; an error when it has no schema of ours.
select coalesce(max(schema_version.number), 0) as number
from hudhud.schema_version
