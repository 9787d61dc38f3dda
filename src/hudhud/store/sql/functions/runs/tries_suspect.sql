-- Whether a worker is just trying a suspect: the next one waits then, or the death of one would cost the others an attempt again.
-- What kills its process mostly does so at once. After ten seconds the next one is tried beside it, for a process that died of
--   something else leaves a hundred suspects, and they may be slow.
-- Called by: claim, when there is a suspect.
create or replace function hudhud.tries_suspect(worker_id uuid, shard integer)
returns boolean language sql stable
set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from hudhud.lease l
        where l.shard = tries_suspect.shard and l.worker_id = tries_suspect.worker_id and l.is_suspect
          and l.claimed_at > hudhud.clock() - interval '10 seconds')
$$;
