-- Which database this is: the server's own number and the database's. A restored dump has another one; a standby, or a base
--   backup of the same server, has the same, and transaction ids that go on from where the cursors were.
-- Called by: publish, announce_events, require_original, rebase.
create or replace function hudhud.database_identity()
returns text language sql stable
set search_path = pg_catalog, pg_temp
return (select s.system_identifier || ':' || d.oid from pg_control_system() s, pg_database d where d.datname = current_database());
