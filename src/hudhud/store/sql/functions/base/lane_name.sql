-- The name of a stored lane.
create or replace function hudhud.lane_name(lane smallint)
returns text language sql immutable parallel safe
return (array['critical', 'high', 'normal', 'bulk'])[lane + 1];
