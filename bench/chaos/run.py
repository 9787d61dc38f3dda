"""One run from beginning to end: start, faults, drain, verdict; nothing is left behind."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.chaos import record as records
from bench.chaos import verdict
from bench.chaos.answers import Answers
from bench.chaos.births import Births
from bench.chaos.bookkeeper import Bookkeeper
from bench.chaos.director import Director
from bench.chaos.fleet import Fleet
from bench.chaos.load import Load
from bench.chaos.place import TELEMETRY, Place
from bench.chaos.plan import plan
from bench.chaos.report import Report
from bench.chaos.server import Server

if TYPE_CHECKING:
    from collections.abc import Generator

WARM_UP_SECONDS: Final = 1.0
# Liveness only; what crashed is tried one at a time by each worker, and there may be hundreds.
DRAIN_SECONDS_MAX: Final = 300.0


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is asked for.

    Attributes:
        kills: How many.
        seed: Of every random choice.
        seconds: After so many no further fault is begun.
        workers: Processes in the fleet.
        directory: Where everything is kept; None for a temporary one.
    """

    kills: int
    seed: int
    seconds: float
    workers: int = 4
    directory: Path | None = None

    @property
    def dedups(self) -> bool:
        """Whether the ledger acts upon a key once; in half of all runs it knows nothing again."""
        return self.seed % 2 == 0


def run(options: Options) -> Report:
    """Do it.

    Raises:
        RuntimeError: The run itself broke: a process that could not be started or ended.
    """
    began = time.monotonic()
    with (
        _place(options.directory) as directory,
        Server(directory / "server") as server,
        Bookkeeper(directory, seed=options.seed, dedups=options.dedups) as book,
        closing(Births(directory)) as births,
    ):
        fleet = Fleet(Place(directory, server.dsn, options.workers, book.port), births)
        answers = Answers()
        director = Director(server, fleet, answers)
        director.await_fleet()
        with Load(server.dsn, answers, seed=options.seed) as load:
            director.pass_time(WARM_UP_SECONDS)
            director.direct(
                load.watched(plan(options.kills, options.seed)),
                until=time.monotonic() + options.seconds,
            )
        director.say("draining")
        _drain(server.dsn, fleet)
        fleet.stop_all()
        record = records.read(server.dsn)
        director.say(f"judging {len(record.entries)} entries of {len(record.jobs)} jobs")
        return Report(
            seed=options.seed,
            seconds=time.monotonic() - began,
            tally=director.tally,
            answers=answers,
            record=record,
            findings=verdict.judge(answers, record),
            unexpected=[*fleet.unexpected, *director.tally.stalls],
            told=_told(directory),
            deadlocks=server.deadlocks,
        )


@contextmanager
def _place(directory: Path | None) -> Generator[Path]:
    if directory is not None:
        directory.mkdir(parents=True)
        yield directory
        return
    # Not the usual place for temporary files, which may be in memory: what is killed is durable.
    disk = Path("/var/tmp")  # noqa: S108 - a private directory is made in it
    with tempfile.TemporaryDirectory(
        prefix="hudhud-chaos-", dir=disk if disk.is_dir() else None
    ) as folder:
        yield Path(folder)


def _drain(dsn: str, fleet: Fleet) -> None:
    """Wait until everybody is back and nothing is left to do; the verdict tells if it is not."""

    def is_drained() -> bool:
        is_whole = len(fleet.ready) == len(fleet.members)
        return is_whole and not any(records.left_over(dsn).values())

    fleet.wait(is_drained, DRAIN_SECONDS_MAX)


def _told(directory: Path) -> Counter[str]:
    """Count what the workers told, by event; `finish.repeated`: refused, for it was sent twice."""
    told: Counter[str] = Counter()
    path = directory / TELEMETRY
    for line in path.read_text("utf-8").splitlines():
        said = json.loads(line)
        event = str(said["event"])
        is_repeat = event == "finish.refused" and said["is_repeat"]
        told["finish.repeated" if is_repeat else event] += 1
    return told
