-- The claim without `suspects`: beside the one with it, which has a default for it, no call would know which is meant.
-- Locks nothing. Rights that were granted on the function itself must be granted again.
drop function if exists hudhud.claim(uuid, text, smallint[], text[], bigint[], integer[], integer, integer);
