-- Everything that was published, by who published it.
select event_id, number, aggregate, place from chaos.fact;
