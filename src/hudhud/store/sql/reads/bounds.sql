-- Bound this transaction: nobody else ends it when its client's host is gone, and what it holds would be held for hours.
-- Parameters: lock_seconds: how long a statement waits for what another transaction holds; idle_seconds: how long it may stand
--   still, until the server ends it.
-- Returns: one row, of no interest.
select set_config('lock_timeout', (1000 * %(lock_seconds)s::double precision)::bigint::text, true) as lock_timeout,
       set_config('idle_in_transaction_session_timeout', (1000 * %(idle_seconds)s::double precision)::bigint::text, true) as idle_timeout
