-- The one clock. hudhud.testing replaces this function by one that a test can set; only the schema's owner can do that.
-- Returns: the instant of the call, not of the transaction's start.
create or replace function hudhud.clock()
returns timestamptz language sql volatile parallel safe
return clock_timestamp();
