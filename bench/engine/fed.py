"""Whether the rate holds while work comes and goes and somebody keeps an old snapshot open."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import psycopg
from typing_extensions import override

from bench.engine import jobs
from bench.engine.drain import CONCURRENCY
from bench.engine.measurement import Control, Target, middle
from bench.engine.process import module, worker

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from bench.engine.measurement import Measurement
    from bench.engine.process import Process
    from bench.engine.server import Database, Server
    from bench.engine.sizes import Size

    Mark = tuple[float, int]

BACKLOG: Final = 50_000
SAMPLE_SECONDS: Final = 0.25
SHARE: Final = 0.2


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Feed a worker, in turn with nothing else open and with an old snapshot."""
    plain: list[Fed] = []
    beside: list[Fed] = []
    for _ in range(size.fed_rounds):
        with server.database() as database:
            plain.append(run(database, size))
        say(f"nothing else open: {plain[-1]}")
        with server.database() as database, old_snapshot(database):
            beside.append(run(database, size))
        say(f"an old snapshot open: {beside[-1]}")
    yield row("fed", plain, note="Fed while it drains: last fifth of the jobs against the first.")
    yield row(
        "fed_old_snapshot",
        beside,
        target=Target("ratio", ">=", 0.9),
        goal=Target("ratio", ">=", 0.95),
        note="The same while a REPEATABLE READ snapshot from before the load stays open.",
    )


@dataclass(frozen=True, slots=True)
class Fed:
    """One fed drain: when how many jobs had started, and how often the queue ran short."""

    marks: Sequence[Mark]
    short: float

    @override
    def __str__(self) -> str:
        first, last = fifths(self.marks)
        return f"{overall(self.marks):,.0f} jobs/s, last fifth {last / first:.2f} of the first"


def row(
    bench: str,
    rounds: Sequence[Fed],
    *,
    target: Target | None = None,
    goal: Target | None = None,
    note: str,
) -> Measurement:
    """Return the rates of the last fifths of the jobs against those of the first."""
    firsts, lasts = zip(*(fifths(one.marks) for one in rounds), strict=True)
    marks, short = rounds[-1].marks, max(one.short for one in rounds)
    if short:
        note = f"{note} The queue ran short {short:.0f} times: the feeder was the limit."
    return middle(
        bench,
        "jobs/s",
        lasts,
        against=Control("the first fifth", firsts),
        target=target,
        goal=goal,
        note=note,
        detail={
            "jobs": marks[-1][1],
            "seconds": round(marks[-1][0] - marks[0][0], 1),
            "rate": round(overall(marks)),
            "series": series(marks),
        },
    )


def run(database: Database, size: Size) -> Fed:
    """Feed a worker for as long as the size says."""
    with database.connect() as connection:
        jobs.announce(connection)
        jobs.load(connection, BACKLOG)
    database.settle()
    with worker(database.dsn, concurrency=CONCURRENCY) as process:
        feeder = (process.board.path, size.fed_jobs, size.fed_seconds, BACKLOG, 0)
        with module("feeder", database.dsn, *feeder) as feeding:
            process.wait_for(1)
            marks = list(watch(process, feeding))
            return Fed(marks, feeding.told()["short"])


def watch(process: Process, feeding: Process) -> Iterator[Mark]:
    """Look at the worker's count now and then, for as long as it is fed."""
    while not feeding.has_told():
        yield time.monotonic(), process.board.count
        time.sleep(SAMPLE_SECONDS)
    yield time.monotonic(), process.board.count


@contextmanager
def old_snapshot(database: Database) -> Generator[None]:
    """Hold a snapshot, as a report or a backup does that runs for hours."""
    with psycopg.connect(database.dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select")
        yield


def fifths(marks: Sequence[Mark]) -> tuple[float, float]:
    """Return the rates of the first and of the last fifth of the jobs."""
    (began, low), (ended, high) = marks[0], marks[-1]
    share = SHARE * (high - low)
    first = moment(marks, low + share) - began
    last = ended - moment(marks, high - share)
    return share / first, share / last


def moment(marks: Sequence[Mark], count: float) -> float:
    """Return when so many jobs had started, between the two marks around it."""
    for (began, low), (ended, high) in pairwise(marks):
        if low <= count <= high and high > low:
            return began + (ended - began) * (count - low) / (high - low)
    message = f"never {count:,.0f} jobs"
    raise ValueError(message)


def overall(marks: Sequence[Mark]) -> float:
    """Return jobs per second from the first mark to the last."""
    (began, low), (ended, high) = marks[0], marks[-1]
    return (high - low) / (ended - began) if ended > began else 0.0


def series(marks: Sequence[Mark], points: int = 30) -> list[list[float]]:
    """Return the rate over time, as pairs of seconds and jobs per second, for a chart."""
    step = max(1, len(marks) // points)
    chosen = marks[::step]
    return [
        [round(end[0] - marks[0][0], 1), round(overall((start, end)))]
        for start, end in pairwise(chosen)
    ]
