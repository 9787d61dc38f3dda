-- Which jobs were made of an event; what is run again is found from those. Only relays write it: an index on jobs would cost every
-- enqueue, and believe whatever a payload says. It goes with the events of its day.
create table hudhud.event_job (
    event_id uuid not null,
    job_id   uuid not null,
    primary key (event_id, job_id)
) partition by range (event_id);
