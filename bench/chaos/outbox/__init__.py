"""The soak of the outbox: `python -m bench.chaos.outbox --events 200000 --seed 1 --json`.

    writer       publishes, and takes some of it back
    foreign      a transaction of somebody else that stays open, here and in another database
    harm         relays that are killed and fail, a server that dies
    copy         the database, dumped and restored where transaction ids begin anew
    soak         one soak from beginning to end

Only relays run; what they make of events stays where it is, and is judged.
"""
