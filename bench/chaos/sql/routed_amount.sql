-- How many jobs relays have made of events.
select count(*) from chaos.routed;
