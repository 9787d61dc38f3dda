"""The chaos run: everything is harmed at work, and the record is judged afterwards.

`python -m bench.chaos --kills 300 --seed 1 --json`, which `hudhud chaos` starts.

What is done:
    plan         what is done to whom and when, all of it from one seed; points: the failpoints
    director     carries the plan out, each fault in the window that it is meant for, as acts say
    server       a PostgreSQL of its own, with durable settings; killed and started again
    wire         the way to it, through a proxy that does harm, in proxy_process
    fleet        workers, relays and API processes, born by the nursery (a fork server)

Who is at work:
    worker       one of them: the engine's worker, watched by a board in shared memory; armed there
    api          another: `hudhud serve`
    application  the handlers, whose payload is a task, and the subscribers of facts
    load         producers, rivals and callers, each with intents
    ledger       the world outside, in a process of its own; the bookkeeper keeps its journal
    operator     the person at the console

What is known of it:
    answers      what producers and callers were told, and what nobody told them
    record       what the database says: triggers note leases, outcomes and routed events
    verdict      jobs; verdict_outside: effects; verdict_events: events. Each holds what is known
                 against what hudhud promises, and yields a finding for what must not be

And beside it:
    teeth        faults that are planted, each of which must be noticed
    outbox       the soak of the outbox
"""
