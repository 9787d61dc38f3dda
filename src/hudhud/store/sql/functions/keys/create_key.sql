-- Store an API key by the hash of its secret; the secret itself is never stored.
-- Parameters: scopes: enqueue, publish, read, operate, approve. secret_hash: 32 bytes, SHA-256.
-- Returns: the key's id. Raises: HH001. Touches: api_key, audit.
create or replace function hudhud.create_key(name text, tenant_id text, scopes text[], secret_hash bytea, actor text)
returns uuid language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    key_id uuid := hudhud.new_id();
begin
    perform hudhud.check_actor(actor);
    if not coalesce(octet_length(secret_hash) = 32 and name <> '' and tenant_id <> '' and cardinality(scopes) > 0
                    and scopes <@ array['enqueue', 'publish', 'read', 'operate', 'approve'], false) then
        raise exception using errcode = 'HH001', message =
            'A key needs a name, a tenant, a SHA-256 hash, and scopes out of enqueue, publish, read, operate, approve.';
    end if;
    insert into hudhud.api_key (id, name, tenant_id, scopes, secret_hash, created_at, created_by)
    values (key_id, name, tenant_id, scopes, secret_hash, hudhud.clock(), actor);
    perform hudhud.write_audit(actor, 'key.create', tenant_id, key_id::text, null, jsonb_build_object('scopes', scopes));
    return key_id;
end $$;
