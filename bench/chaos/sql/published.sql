-- Everything that hudhud says was published.
select id, (payload ->> 'number')::bigint, sequence from hudhud.event where type = 'chaos.fact';
