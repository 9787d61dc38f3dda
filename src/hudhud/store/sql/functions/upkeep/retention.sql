-- How long a job is kept after it ended; the one list of final outcomes. Null for an outcome that is not final.
-- Called by: keep_survivors, prune.
create or replace function hudhud.retention(outcome text)
returns interval language sql stable
set search_path = pg_catalog, pg_temp
return (select case retention.outcome
    when 'succeed' then s.keep_succeeded
    when 'cancel' then s.keep_cancelled
    when 'fail' then s.keep_dead
end from hudhud.setting s);
