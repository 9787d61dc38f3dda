-- A page of API keys, oldest first, revoked ones included. Secrets and their hashes never leave the database.
-- Parameters: tenant_id (null: all tenants, for operators); after (null: from the start; else the id of the last row seen);
--   rows_max.
select
    api_key.id, api_key.name, api_key.tenant_id, api_key.scopes, api_key.created_at, api_key.created_by, api_key.revoked_at,
    api_key.revoked_by
from hudhud.api_key
where (%(tenant_id)s::text is null or api_key.tenant_id = %(tenant_id)s::text)
  and (%(after)s::uuid is null or api_key.id > %(after)s::uuid)
order by api_key.id
limit %(rows_max)s
