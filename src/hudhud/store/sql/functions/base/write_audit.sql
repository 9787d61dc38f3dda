-- Append one line to the audit.
-- Touches: audit. Called by: every verb of an operator.
create or replace function hudhud.write_audit(
    actor text, action text, tenant_id text, subject text, reason text default null, detail jsonb default '{}')
returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    if coalesce(actor, '') = '' then
        raise exception using errcode = 'HH001', message = 'An operator''s act needs an actor.';
    end if;
    insert into hudhud.audit (at, actor, action, tenant_id, subject, reason, detail)
    values (hudhud.clock(), actor, action, tenant_id, subject, reason, detail);
end $$;
