-- The database's time, for what must be judged by it and not by the clock of whoever asks.
select hudhud.clock() as now
