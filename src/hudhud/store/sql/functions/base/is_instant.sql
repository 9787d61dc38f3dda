-- Whether an instant is one that clients in every language can read: no infinity, no year beyond four digits.
-- Called by: check_options, check_event, reschedule.
create or replace function hudhud.is_instant(at timestamptz)
returns boolean language sql immutable parallel safe
return at between timestamptz '0001-01-02 00:00+00' and timestamptz '9999-01-01 00:00+00';
