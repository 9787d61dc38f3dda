-- Route the next events of one subscription: exactly one job for each, in order, committed together with the cursor's move.
-- The cursor is a snapshot of the database. What became visible between that and a new one is what was committed meanwhile, however
--   early its transaction began; and two events of an aggregate, of which the second was written after the first was committed,
--   never come into it in the wrong order, because a snapshot that shows the second shows the first.
-- Parameters: max_events per call; a longer step is gone on with by the next one.
-- Returns: one row: jobs made, and whether the step goes on. 0 and false also when another relay has the subscription.
-- Raises: HH010 in a copy.
-- Touches: subscription_cursor, job, event_job, ready, range_new. Locks: the subscription's row; skips it when another has it.
-- Called by: worker/relay.py, any number at once.
create or replace function hudhud.relay(
    subscription text, max_events integer default 1000, out routed integer, out is_open boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
declare
    now timestamptz := hudhud.clock();
    -- Read before the lock gives this transaction its id.
    before bigint := hudhud.position_before();
    this_epoch integer;
    asked hudhud.subscription%rowtype;
    mark hudhud.subscription_cursor%rowtype;
    is_ahead boolean := false;
    was_open boolean;
    is_new boolean;
    picked record;
    ids uuid[];
begin
    routed := 0;
    is_open := false;
    -- A cursor may not outlive, in a crash, the commits that it has seen.
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    select s.* into asked from hudhud.subscription s
    where s.name = relay.subscription and s.state = 'active' and not hudhud.is_silent(s.seen_at)
    for no key update skip locked;
    if not found then
        return;
    end if;
    this_epoch := hudhud.require_original();
    select c.* into mark from hudhud.subscription_cursor c
    where c.subscription = relay.subscription order by c.number desc limit 1;

    was_open := mark.to_snapshot is not null;
    is_new := pg_snapshot_xmax(mark.from_snapshot)::text::bigint <= 3;
    if not was_open then
        -- One statement, so that the snapshot is that by which it looks.
        select pg_current_snapshot(), exists (
            select from hudhud.event e
            where e.type = asked.event_type and e.epoch = this_epoch and e.xid >= pg_snapshot_xmax(pg_current_snapshot())
              and e.xid is distinct from pg_current_xact_id_if_assigned())
        into mark.to_snapshot, is_ahead;
        mark.to_snapshot := hudhud.snapshot_below(mark.to_snapshot, pg_current_xact_id());
        mark.to_position := hudhud.last_position();
        -- What is true of the snapshot before is true of this one, too.
        mark.next_position := greatest(
            case when pg_snapshot_xmax(mark.to_snapshot) >= pg_current_xact_id() then before end, mark.from_position);
        if mark.epoch < this_epoch then
            -- The transactions of an epoch that is over are all over.
            mark.to_snapshot := '9223372036854775807:9223372036854775807:';
            -- And of a sequence that was set back nothing is known.
            mark.from_position := 0;
        elsif is_ahead or pg_snapshot_xmax(mark.from_snapshot) > pg_snapshot_xmax(mark.to_snapshot)
              or mark.to_position < mark.from_position then
            raise exception using errcode = 'HH010', message = format(
                'The cursor of %s, or an event of its type, is ahead of this server''s transactions or positions, as in a copy of another'
                ' database. Run `hudhud events rebase`.', relay.subscription);
        end if;
        mark.position := asked.start_position;
    end if;

    select array_agg(p.position order by p.position) as positions, array_agg(p.version order by p.position) as versions,
           array_agg(p.tenant_id order by p.position) as tenants, array_agg(p.correlation_id order by p.position) as correlations,
           array_agg(p.traceparent order by p.position) as traces, array_agg(p.document order by p.position) as documents
    into picked
    from hudhud.pick_events(asked.event_type, mark.epoch, mark.from_snapshot, mark.to_snapshot, mark.from_position, mark.position,
                            mark.to_position, max_events) p;
    routed := coalesce(cardinality(picked.positions), 0);
    is_open := routed >= max_events;
    -- Nothing to write, unless the cursor has to leave an epoch or its beginning, or still names transactions of a minute ago.
    if routed = 0 and not was_open and not is_new and mark.epoch = this_epoch
       and (mark.moved_at > now - interval '1 minute'
            or pg_snapshot_xmin(mark.from_snapshot) = pg_snapshot_xmax(mark.from_snapshot)) then
        return;
    end if;
    if routed > 0 then
        ids := hudhud.new_ids(routed);
        insert into hudhud.job (
            id, shard, version, lane, max_attempts, created_at, tenant_id, type, queue, payload, correlation_id, traceparent)
        select j.id, 0, j.version, asked.lane, asked.max_attempts, now, j.tenant_id, asked.job_type, asked.queue,
               jsonb_build_object('event', j.document), j.correlation_id, j.traceparent
        from unnest(ids, picked.versions, picked.tenants, picked.documents, picked.correlations, picked.traces)
            j(id, version, tenant_id, document, correlation_id, traceparent);
        insert into hudhud.event_job (event_id, job_id)
        select (j.document ->> 'id')::uuid, j.id from unnest(ids, picked.documents) j(id, document);
        perform hudhud.register_range(0::smallint, asked.queue, asked.lane, t.tenant_id)
        from (select distinct tenant_id from unnest(picked.tenants) tenant_id) t;
        insert into hudhud.ready (job_id, run, shard, line, lane, attempt, crashes, queue, tenant_id)
        select j.id, 1, 0, 2, asked.lane, 0, 0, asked.queue, j.tenant_id
        from unnest(ids, picked.tenants) with ordinality j(id, tenant_id, n) order by j.n;
        perform hudhud.wake(asked.queue);
        perform hudhud.reach('relay.inserted');
    end if;

    if is_open then
        mark.position := picked.positions[routed];
    elsif pg_snapshot_xmax(mark.to_snapshot) = '9223372036854775807' then
        mark.epoch := mark.epoch + 1;
        mark.from_snapshot := '3:3:';
        mark.from_position := 0;
    else
        mark.from_snapshot := mark.to_snapshot;
        mark.from_position := mark.next_position;
    end if;
    if not is_open then
        mark.to_snapshot := null;
        mark.to_position := null;
        mark.next_position := null;
        mark.position := 0;
    end if;
    delete from hudhud.subscription_cursor c where c.subscription = relay.subscription and c.number = mark.number;
    insert into hudhud.subscription_cursor (
        subscription, number, epoch, from_snapshot, to_snapshot, from_position, to_position, next_position, position, routed,
        moved_at)
    values (relay.subscription, mark.number + 1, mark.epoch, mark.from_snapshot, mark.to_snapshot, mark.from_position,
            mark.to_position, mark.next_position, mark.position, mark.routed + routed, now);
    perform hudhud.reach('relay.moved');
end $$;
