-- Every intent that was committed.
select number from chaos.intent;
