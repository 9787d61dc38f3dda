"""One run from beginning to end: start, faults, drain, verdict; nothing is left behind."""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.chaos import record as records
from bench.chaos import verdict, verdict_events, verdict_outside
from bench.chaos.acts import Stage
from bench.chaos.answers import Answers
from bench.chaos.births import Births
from bench.chaos.bookkeeper import Bookkeeper, Manners
from bench.chaos.director import Director
from bench.chaos.fleet import Fleet
from bench.chaos.intents import Taste
from bench.chaos.load import Load
from bench.chaos.operator import Operator
from bench.chaos.place import HOST, TELEMETRY, Place
from bench.chaos.plan import plan
from bench.chaos.report import Report
from bench.chaos.server import Server
from bench.chaos.teeth.catalogue import TEETH
from bench.chaos.teeth.functions import plant
from bench.chaos.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Generator

    from bench.chaos.finding import Finding
    from bench.chaos.options import Options
    from bench.chaos.record import Record
    from bench.chaos.verdict_outside import Outside

WARM_UP_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.2  # between two looks whether anything is left
WATCH_SECONDS: Final = 1.0  # between two looks for a breach that ends the run


def run(options: Options) -> Report:
    """Do it.

    Raises:
        RuntimeError: The run itself broke: a process that could not be started or ended.
    """
    with ExitStack() as stack:
        return _Run(options, stack).report()


class _Run:
    """Everything that there is in one run."""

    def __init__(self, options: Options, stack: ExitStack) -> None:
        self._options = options
        self._began = time.monotonic()
        self._directory = stack.enter_context(_directory(options.directory))
        self._server = stack.enter_context(
            Server(self._directory / "server", template=options.template)
        )
        if options.tooth:
            plant(self._server.dsn, TEETH[options.tooth])
        wire = stack.enter_context(Wire(self._server.dsn, self._directory))
        manners = Manners(options.dedups, options.bad_share, options.late_seconds)
        self._book = stack.enter_context(Bookkeeper(self._directory, manners, seed=options.seed))
        births = stack.enter_context(closing(Births(self._directory, has_apis=options.apis > 0)))
        self._fleet = Fleet(self._place(wire.dsn), births)
        self._answers, self._facts = Answers(), Answers()
        self._operator = Operator(self._server.dsn, self._book)
        self._director = Director(
            Stage(self._server, wire, self._fleet, self._answers), self._operator
        )
        self._look_at = self._watch_at = 0.0
        self._is_over = False

    def report(self) -> Report:
        """Play to the end, and judge."""
        self._play()
        if self._is_over:
            self._fleet.end_all()
        else:
            self._fleet.stop_all()
        record, outside, findings = self._judge()
        self._director.say(f"judged {len(record.entries)} entries of {len(record.jobs)} jobs")
        director = self._director
        return Report(
            seed=self._options.seed,
            seconds=time.monotonic() - self._began,
            tally=director.tally,
            resumed_seconds=director.resumed_seconds,
            answers=self._answers,
            record=record,
            outside=outside,
            findings=findings,
            unexpected=[*self._fleet.unexpected, *director.stalls, *director.tally.missed],
            decided=len(self._operator.decided),
            told=_told(self._directory),
            deadlocks=self._server.deadlocks,
            dedups=self._options.dedups,
        )

    def _play(self) -> None:
        """Bring work, do what the plan says, and let everything come to its end."""
        options, director = self._options, self._director
        director.await_fleet()
        load = Load(
            self._fleet.place,
            self._answers,
            self._facts,
            seed=options.seed,
            taste=Taste(options.weights, dedups=options.dedups, **options.taste),
            jobs_per_second=options.jobs_per_second,
        )
        with load:
            director.pass_time(WARM_UP_SECONDS)
            faults = plan(options.kills, options.seed, options.mix)
            director.direct(
                load.watched(fault for fault in faults if not self._watch()),
                until=time.monotonic() + options.seconds,
                resume_seconds=options.resume_seconds,
            )
        director.say("draining")
        # If it is not drained then, the verdict tells.
        director.wait(lambda: self._is_drained() or self._watch(), options.drain_seconds)

    def _place(self, dsn: str) -> Place:
        options = self._options
        first_api = options.workers + options.relays
        return Place(
            self._directory,
            dsn,
            slots=first_api + options.apis,
            ledger_port=self._book.port,
            api_ports=tuple(enumerate(_ports(options.apis), first_api)),
            relays=tuple(range(options.workers, first_api)),
            tooth=self._options.tooth,
        )

    def _is_drained(self) -> bool:
        if time.monotonic() < self._look_at or not self._fleet.is_whole:
            return False
        self._look_at = time.monotonic() + LOOK_SECONDS
        return not any(records.left_over(self._server.dsn).values())

    def _watch(self) -> bool:
        """Whether a breach was found that makes everything else needless."""
        if self._options.watched and not self._is_over and time.monotonic() >= self._watch_at:
            _, _, findings = self._judge()
            self._is_over = any(one.breach.value in self._options.watched for one in findings)
            self._watch_at = time.monotonic() + WATCH_SECONDS
        return self._is_over

    def _judge(self) -> tuple[Record, Outside, list[Finding]]:
        # The record last: what is known otherwise was in the database before.
        acts, answers, facts = self._book.acts(), self._answers.copy(), self._facts.copy()
        record = records.read(self._server.dsn)
        outside = verdict_outside.judge(acts, record, self._fleet.freezes)
        findings = [
            *verdict.judge(answers, record),
            *outside.findings,
            *verdict_events.judge(facts, record, acts),
        ]
        return record, outside, findings


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
