-- What tells whether a release fits this database; an error when it has no schema of ours.
-- Returns: one row: number of the newest migration; objects: names of the functions and views that there are.
select
    (select coalesce(max(schema_version.number), 0) from hudhud.schema_version) as number,
    array(select pg_proc.proname::text from pg_catalog.pg_proc
          where pg_proc.pronamespace = to_regnamespace('hudhud')
          union select pg_class.relname::text from pg_catalog.pg_class
          where pg_class.relnamespace = to_regnamespace('hudhud') and pg_class.relkind = 'v') as objects
