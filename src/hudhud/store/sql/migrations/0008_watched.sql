-- When a worker last looked after the subscriptions: what passed without any is nobody's silence.
alter table hudhud.relay_state add column watched_at timestamptz not null default clock_timestamp();
