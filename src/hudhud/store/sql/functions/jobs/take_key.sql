-- Take an idempotency key for a new job, or find out which job has it.
-- Waits for an open transaction that took the same key, and never trusts one that may roll back.
-- Parameters: the key's scope; id of the new job; policy reject | return_existing | replace; until when the key holds.
-- Returns: null when the new job has the key now, else the id of the job that keeps it.
-- Raises: HH003 when the policy refuses.
-- Touches: idempotency; with replace also ready, scheduled, waiting and outcome. Called by: enqueue, take_keys.
create or replace function hudhud.take_key(
    tenant_id text, type text, key text, new_id uuid, policy text, holds_until timestamptz)
returns uuid language plpgsql
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    of_shard smallint := hudhud.shard_of(new_id);
    holder record;
begin
    loop
        insert into hudhud.idempotency (tenant_id, use, type, key, shard, job_id, created_at, expires_at)
        values (take_key.tenant_id, 'enqueue', take_key.type, take_key.key, of_shard, new_id, hudhud.clock(), holds_until)
        on conflict do nothing;
        if found then
            return null;
        end if;

        select k.job_id, k.expires_at > hudhud.clock() as holds into holder
        from hudhud.idempotency k
        where k.tenant_id = take_key.tenant_id and k.use = 'enqueue' and k.type = take_key.type
          and k.key = take_key.key and k.shard = of_shard;
        -- Pruned since the insert met it: try again.
        continue when not found;
        if holder.holds then
            if policy = 'return_existing' then
                return holder.job_id;
            end if;
            -- An effect of which nobody knows must be asked after by its own job. Looked for when nobody can claim it any more;
            -- what is raised then undoes its end.
            if policy = 'reject' or not hudhud.end_unclaimed(holder.job_id, 'replaced') or hudhud.has_open_effect(holder.job_id) then
                -- Whom we waited for has replaced the holder: the key's new job is the one to replace.
                continue when policy = 'replace' and not exists (
                    select from hudhud.idempotency k
                    where k.tenant_id = take_key.tenant_id and k.use = 'enqueue' and k.type = take_key.type
                      and k.key = take_key.key and k.shard = of_shard and k.job_id = holder.job_id);
                raise exception using errcode = 'HH003', detail = holder.job_id::text,
                    message = format('The idempotency key %L of type %L is held by job %s%s.', take_key.key, take_key.type,
                        holder.job_id, case
                            when policy <> 'replace' then ''
                            when exists (select from hudhud.job_all j where j.id = holder.job_id)
                                then ', which has been claimed and cannot be replaced'
                            else ', which is made by the same call'
                        end);
            end if;
        end if;

        update hudhud.idempotency k
        set job_id = new_id, created_at = hudhud.clock(), expires_at = holds_until
        where k.tenant_id = take_key.tenant_id and k.use = 'enqueue' and k.type = take_key.type
          and k.key = take_key.key and k.shard = of_shard and k.job_id = holder.job_id;
        -- Nothing changed: another transaction took the key from the same holder first.
        if found then
            return null;
        end if;
    end loop;
end $$;
