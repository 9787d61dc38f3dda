"""One run from beginning to end: start, faults, drain, verdict; nothing is left behind."""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.chaos import record as records
from bench.chaos import verdict, verdict_events, verdict_outside
from bench.chaos.acts import Stage
from bench.chaos.answers import Answers
from bench.chaos.api import HOST
from bench.chaos.births import Births
from bench.chaos.bookkeeper import BAD_SHARE, Bookkeeper
from bench.chaos.director import RESUME_SECONDS_MAX, Director
from bench.chaos.fleet import Fleet
from bench.chaos.intents import WEIGHTS, Taste
from bench.chaos.load import JOBS_PER_SECOND, Load
from bench.chaos.operator import Operator
from bench.chaos.place import TELEMETRY, Place
from bench.chaos.plan import Mix, plan
from bench.chaos.report import Report
from bench.chaos.server import Server
from bench.chaos.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

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
        workers, apis: Processes in the fleet.
        directory: Where everything is kept; None for a temporary one.
        mix: How much of which fault.
        weights: How often each type of job comes.
        bad_share: Of the ledger's calls that it does not take well.
        jobs_per_second: Of the load.
        resume_seconds: After so long without an end of a run the queue stands still.
        drain_seconds: So long it may take to come to an end.
        tooth: A fault that is planted; "" for none.
    """

    kills: int
    seed: int
    seconds: float
    workers: int = 4
    apis: int = 2
    directory: Path | None = None
    mix: Mix = field(default_factory=Mix)
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    bad_share: float = BAD_SHARE
    jobs_per_second: float = JOBS_PER_SECOND
    resume_seconds: float = RESUME_SECONDS_MAX
    drain_seconds: float = DRAIN_SECONDS_MAX
    tooth: str = ""

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
    with ExitStack() as stack:
        directory = stack.enter_context(_directory(options.directory))
        server = stack.enter_context(Server(directory / "server"))
        wire = stack.enter_context(Wire(server.dsn, directory))
        book = stack.enter_context(
            Bookkeeper(directory, seed=options.seed, dedups=options.dedups, share=options.bad_share)
        )
        place = Place(
            directory,
            wire.dsn,
            slots=options.workers + options.apis,
            ledger_port=book.port,
            api_ports=tuple(zip(range(options.workers, 99), _ports(options.apis), strict=False)),
            tooth=options.tooth,
        )
        stage = Stage(
            server, wire, Fleet(place, stack.enter_context(closing(Births(directory)))), Answers()
        )
        facts = Answers()
        operator = Operator(server.dsn, book)
        director = Director(stage, operator)
        _play(options, stage, director, facts=facts)
        stage.fleet.stop_all()
        record = records.read(server.dsn)
        director.say(f"judging {len(record.entries)} entries of {len(record.jobs)} jobs")
        acts = book.acts()
        outside = verdict_outside.judge(acts, record, stage.fleet.freezes)
        findings = [
            *verdict.judge(stage.answers, record),
            *outside.findings,
            *verdict_events.judge(facts, record, acts),
        ]
        return Report(
            seed=options.seed,
            seconds=time.monotonic() - began,
            tally=director.tally,
            resumed_seconds=director.resumed_seconds,
            answers=stage.answers,
            record=record,
            outside=outside,
            findings=findings,
            unexpected=[*stage.fleet.unexpected, *director.stalls, *director.tally.missed],
            decided=len(operator.decided),
            told=_told(directory),
            deadlocks=server.deadlocks,
            dedups=options.dedups,
        )


def _play(options: Options, stage: Stage, director: Director, *, facts: Answers) -> None:
    """Bring work, do what the plan says, and let everything come to its end."""
    director.await_fleet()
    taste = Taste(options.weights, dedups=options.dedups)
    load = Load(
        stage.fleet.place,
        stage.answers,
        facts,
        seed=options.seed,
        taste=taste,
        jobs_per_second=options.jobs_per_second,
    )
    with load:
        director.pass_time(WARM_UP_SECONDS)
        director.direct(
            load.watched(plan(options.kills, options.seed, options.mix)),
            until=time.monotonic() + options.seconds,
            resume_seconds=options.resume_seconds,
        )
    director.say("draining")

    def is_drained() -> bool:
        return stage.fleet.is_whole and not any(records.left_over(stage.server.dsn).values())

    # If it is not, the verdict tells.
    director.wait(is_drained, options.drain_seconds)


@contextmanager
def _directory(directory: Path | None) -> Generator[Path]:
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


def _ports(amount: int) -> list[int]:
    """Return ports that are free now, all at once so that they differ."""
    plugs = [socket.socket() for _ in range(amount)]
    for plug in plugs:
        plug.bind((HOST, 0))
    ports = [int(plug.getsockname()[1]) for plug in plugs]
    for plug in plugs:
        plug.close()
    return ports


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
