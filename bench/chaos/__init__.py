"""The chaos run: workers and the database are killed at work, and the record is judged afterwards.

`python -m bench.chaos --kills 100 --seed 1 --json`, which `hudhud chaos` starts.

    plan         what is done to whom and when, all of it from one seed
    director     carries the plan out, each fault in the window that it is meant for
    server       a PostgreSQL of its own, with durable settings; killed and started again
    fleet        the worker processes, born by the nursery (a fork server)
    worker       one of them: the engine's worker, watched by a board in shared memory
    producer     the load: intents and their jobs, committed together
    answers       what the producers were told, and what nobody told them
    record       what the database says: triggers note leases and outcomes as they come and go
    verdict      holds the answers and the record against what hudhud promises
"""
