-- Whose key a secret is, by its hash.
-- Returns: one row, all null when there is no such key or it is revoked.
-- Called by: web/auth.py.
create or replace function hudhud.check_key(secret_hash bytea, out key_id uuid, out tenant_id text, out scopes text[])
language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
    select k.id, k.tenant_id, k.scopes from hudhud.api_key k
    where k.secret_hash = check_key.secret_hash and k.revoked_at is null
$$;
