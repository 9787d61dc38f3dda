-- Make an API key useless from now on.
-- Raises: HH001 no actor, HH006 not there, HH007 revoked already. Touches: api_key, audit.
create or replace function hudhud.revoke_key(key_id uuid, actor text)
returns void language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    found_key hudhud.api_key%rowtype;
begin
    perform hudhud.check_actor(actor);
    select * into found_key from hudhud.api_key k where k.id = revoke_key.key_id for update;
    if not found then
        raise exception using errcode = 'HH006', message = format('There is no key %s.', revoke_key.key_id);
    elsif found_key.revoked_at is not null then
        raise exception using errcode = 'HH007', message = format('Key %s is revoked already.', revoke_key.key_id);
    end if;
    update hudhud.api_key k set revoked_at = hudhud.clock(), revoked_by = actor where k.id = revoke_key.key_id;
    perform hudhud.write_audit(actor, 'key.revoke', found_key.tenant_id, revoke_key.key_id::text);
end $$;
