"""Hours of steady load: memory, dead rows and the cost of a job must stay where they are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.engine import jobs
from bench.engine.drain import CONCURRENCY
from bench.engine.measurement import Control, Measurement, Target
from bench.engine.process import module, worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.engine.process import Process
    from bench.engine.server import Database, Server
    from bench.engine.sizes import Size

JOBS_PER_SECOND: Final = 2_000  # 14 million jobs in two hours, about 7 GB of history
BACKLOG: Final = 2_000
STATES: Final = 60
SHARE: Final = 5
_TABLES: Final = (
    "select pg_total_relation_size('hudhud.ready') + pg_total_relation_size('hudhud.lease')"
)


@dataclass(frozen=True, slots=True)
class State:
    """How things stood at one moment of a soak."""

    at: float
    count: int
    resident_mib: float
    worker_cpu_seconds: float
    server_cpu_seconds: float
    tables_mib: float


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Feed a worker at a steady rate and look at it sixty times."""
    with server.database() as database:
        with database.connect() as connection:
            jobs.announce(connection)
            jobs.load(connection, BACKLOG)
        with worker(database.dsn, concurrency=CONCURRENCY) as process:
            feeder = (process.board.path, 0, size.soak_seconds, BACKLOG, JOBS_PER_SECOND)
            with module("feeder", database.dsn, *feeder) as feeding:
                process.wait_for(1)
                states = list(watch(process, feeding, database, seconds=size.soak_seconds, say=say))
    yield from figures(states)


def watch(
    process: Process,
    feeding: Process,
    database: Database,
    *,
    seconds: float,
    say: Callable[[str], None],
) -> Iterator[State]:
    """Look now and then until the feeder has ended."""
    step = seconds / STATES
    while not feeding.has_told():
        row = database.admin.execute(_TABLES.encode()).fetchone()
        assert row is not None
        state = State(
            time.monotonic(),
            process.board.count,
            process.resident_mib(),
            process.cpu_seconds(),
            database.spent().cpu_seconds,
            int(row[0]) / 2**20,
        )
        say(f"{state.count:,} jobs, {state.resident_mib:.1f} MiB, {state.tables_mib:.1f} MiB hot")
        yield state
        time.sleep(step)


def figures(states: Sequence[State]) -> Iterator[Measurement]:
    """Hold the last fifth of a soak against the second: the first warms up."""
    fifth = len(states) // SHARE
    early, late = states[fifth : 2 * fifth + 1], states[-fifth - 1 :]
    rows = (
        ("soak_rate", "jobs/s", _rate, Target("ratio", ">=", 0.95)),
        ("soak_worker_cpu", "us/job", _worker_us, Target("ratio", "<=", 1.1)),
        ("soak_server_cpu", "ms/1000 jobs", _server_ms, Target("ratio", "<=", 1.1)),
        ("soak_memory", "MiB", _memory, Target("ratio", "<=", 1.1)),
        ("soak_tables", "MiB", _tables, Target("ratio", "<=", 1.5)),
    )
    seconds = states[-1].at - states[0].at
    for bench, unit, figure, target in rows:
        value = figure(late)
        yield Measurement(
            bench,
            unit,
            [value],
            value,
            against=Control("the second fifth", [figure(early)]),
            target=target,
            note=f"{JOBS_PER_SECOND:,} jobs a second for {seconds / 60:.0f} minutes: last fifth.",
        )


def _rate(part: Sequence[State]) -> float:
    return (part[-1].count - part[0].count) / (part[-1].at - part[0].at)


def _worker_us(part: Sequence[State]) -> float:
    seconds = part[-1].worker_cpu_seconds - part[0].worker_cpu_seconds
    return 1e6 * seconds / (part[-1].count - part[0].count)


def _server_ms(part: Sequence[State]) -> float:
    seconds = part[-1].server_cpu_seconds - part[0].server_cpu_seconds
    return 1e6 * seconds / (part[-1].count - part[0].count)


def _memory(part: Sequence[State]) -> float:
    return part[-1].resident_mib


def _tables(part: Sequence[State]) -> float:
    return part[-1].tables_mib
