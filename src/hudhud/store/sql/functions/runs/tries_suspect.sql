-- Whether a worker is just trying suspects: the next ones wait then, so that it is known who killed it.
-- What kills its process mostly does so at once. After ten seconds the next are tried beside them, for they may be slow.
-- Called by: claim, when there are suspects.
create or replace function hudhud.tries_suspect(worker_id uuid, shard integer)
returns boolean language sql stable
set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from hudhud.lease l
        where l.shard = tries_suspect.shard and l.worker_id = tries_suspect.worker_id and l.is_suspect
          and l.claimed_at > hudhud.clock() - interval '10 seconds')
$$;
