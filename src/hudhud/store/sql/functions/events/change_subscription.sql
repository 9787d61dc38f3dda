-- Pause a subscription, let it go on, or stop it for good: paused it keeps its events, stopped it lets them go.
-- Parameters: state: active, paused or stopped.
-- Returns: the state it was in. Raises: HH001 without an actor; HH011 for a name or a state that there is not.
-- Touches: subscription, audit. Locks: the subscription's row, so that after a pause nothing more is routed.
create or replace function hudhud.change_subscription(subscription text, state text, actor text, reason text default null)
returns text language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    before text;
begin
    if state is null or state not in ('active', 'paused', 'stopped') then
        raise exception using errcode = 'HH011', message = 'A subscription is active, paused or stopped.';
    end if;
    select s.state into before from hudhud.subscription s where s.name = change_subscription.subscription for no key update;
    if not found then
        raise exception using errcode = 'HH011', message = format(
            'There is no subscription %s. `hudhud events subscriptions` lists them.', change_subscription.subscription);
    end if;
    update hudhud.subscription s set state = change_subscription.state where s.name = change_subscription.subscription;
    perform hudhud.write_audit(actor, 'subscription.' || change_subscription.state, null, change_subscription.subscription,
                               reason, jsonb_build_object('before', before));
    perform pg_notify('hudhud', '!events');
    return before;
end $$;
