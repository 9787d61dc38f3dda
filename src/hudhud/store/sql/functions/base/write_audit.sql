-- Append one line to the audit.
-- Raises: HH001 without an actor. Touches: audit. Called by: every verb of an operator.
create or replace function hudhud.write_audit(
    actor text, action text, tenant_id text, subject text, reason text default null, detail jsonb default '{}')
returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    perform hudhud.check_actor(actor);
    insert into hudhud.audit (at, actor, action, tenant_id, subject, reason, detail)
    values (hudhud.clock(), actor, action, tenant_id, subject, reason, detail);
end $$;
