-- Cancel jobs that are about to be claimed, in a transaction that is going to be rolled back; return how many. They are claimed
-- so soon that it takes some looking.
select chaos.begin_to_cancel();
