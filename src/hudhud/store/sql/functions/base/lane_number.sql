-- The number under which a lane is stored; null for an unknown name.
create or replace function hudhud.lane_number(lane text)
returns smallint language sql immutable parallel safe
return (array_position(array['critical', 'high', 'normal', 'bulk'], lane) - 1)::smallint;
