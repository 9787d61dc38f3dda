-- How many events there are of each type, the most first.
-- Parameters: none.
select event.type, count(*) as events
from hudhud.event
group by event.type
order by events desc, event.type
