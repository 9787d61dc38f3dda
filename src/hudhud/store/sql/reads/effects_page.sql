-- A page of effects, newest first, with the job that came by last.
-- Parameters: tenant_id (null: all tenants, for operators); state (null: any; 'open': intended or unknown); provider, job_id
--   (null: any); after (null: from the newest; else only effects older than this id); rows_max.
-- Returns: asks_operator: nobody but an operator can say what became of it, and the provider has settled.
select
    effect.id, effect.tenant_id, effect.name, effect.provider, effect.state, effect.sends, effect.reconcile, effect.key,
    effect.state in ('intended', 'unknown') and effect.reconcile = 'none' and effect.reconcile_after <= hudhud.clock()
        as asks_operator,
    effect.job_id, job.status as job_status, effect.run, effect.reference, effect.result, effect.code, effect.send_before,
    effect.reconcile_after, effect.created_at, effect.updated_at
from (
    select effect.*
    from hudhud.effect
    where (%(tenant_id)s::text is null or effect.tenant_id = %(tenant_id)s::text)
      and (%(state)s::text is null
           or effect.state = %(state)s::text
           or (%(state)s::text = 'open' and effect.state in ('intended', 'unknown')))
      and (%(provider)s::text is null or effect.provider = %(provider)s::text)
      and (%(job_id)s::uuid is null or effect.job_id = %(job_id)s::uuid or effect.root_id = %(job_id)s::uuid)
      and (%(after)s::uuid is null or effect.id < %(after)s::uuid)
      and (%(id)s::uuid is null or effect.id = %(id)s::uuid)
    order by effect.id desc
    limit %(rows_max)s
) effect
left join lateral (select job_status.status from hudhud.job_status where job_status.id = effect.job_id limit 1) job on true
order by effect.id desc
