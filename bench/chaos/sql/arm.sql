-- Let something happen to the next that comes by a point inside a function; return the order's ticket.
insert into chaos.armed (point, action, seconds) values (%(point)s, %(action)s, %(seconds)s) returning ticket;
