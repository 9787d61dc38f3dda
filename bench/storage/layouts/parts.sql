-- Helpers of parts.py: call a function again and again; rows of arrays as a claim returns them.
create function probe.again(p_name text, p_ids uuid[], p_times int) returns void language plpgsql as $$
declare done int;
begin
  for nr in 1..p_times loop
    execute format('select probe.%I($1)', p_name) into done using p_ids;
  end loop;
end $$;

create function probe.make_read(p_name text, p_head text, p_body text) returns void language plpgsql as $$
begin
  execute format('create function probe.%I(job_ids uuid[]) returns int language plpgsql %s as %L', p_name, p_head,
    'declare types text[]; payloads text[]; lo uuid; hi uuid; begin ' || p_body || ' return cardinality(payloads); end');
end $$;

create table probe.batch as
  select n, (select array_agg(uuidv7()) from generate_series(1, n)) ids, (select array_agg(1) from generate_series(1, n)) runs,
    (select array_agg('mail.send'::text) from generate_series(1, n)) types,
    (select array_agg(jsonb_build_object('i', g, 'user', 'user-' || g, 'pad', repeat('x', 60))::text)
       from generate_series(1, n) g) payloads
  from (values (1), (20), (500)) v(n);
