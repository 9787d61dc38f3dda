-- Refuse an act of nobody.
-- Raises: HH001. Called by: write_audit; cancel, create_key, revoke_key, decide_effect before they write the actor elsewhere.
create or replace function hudhud.check_actor(actor text)
returns void language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp as $$
begin
    if coalesce(actor, '') = '' then
        raise exception using errcode = 'HH001', message = 'An operator''s act needs an actor.';
    end if;
end $$;
