"""One soak from beginning to end: half of the events, a copy, the other half, the verdict."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

from bench.chaos import query, verdict_events
from bench.chaos import record as records
from bench.chaos.acts import Stage
from bench.chaos.answers import Answers
from bench.chaos.births import Births
from bench.chaos.fact import SUBSCRIPTIONS
from bench.chaos.finding import Breach
from bench.chaos.fleet import Fleet
from bench.chaos.outbox.copy import copy
from bench.chaos.outbox.foreign import Foreigner
from bench.chaos.outbox.harm import Torment
from bench.chaos.outbox.writer import Writer
from bench.chaos.place import TELEMETRY, Place
from bench.chaos.server import Server
from bench.chaos.wire import Wire
from hudhud.drivers.base import run as run_call
from hudhud.store import events

if TYPE_CHECKING:
    from collections.abc import Generator

    from bench.chaos.finding import Finding

WRITERS: Final = 4
RELAYS: Final = 3
READY_SECONDS_MAX: Final = 60.0
DRAIN_SECONDS_MAX: Final = 120.0
REFUSES_SECONDS: Final = 3.0  # how long a copy is seen to route nothing
LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Soaked:
    """What came of a soak.

    Attributes:
        findings: What must not be.
        document: The figures.
    """

    findings: list[Finding]
    document: dict[str, object]

    @property
    def is_good(self) -> bool:
        """Whether every event came to every subscription once, in order."""
        return not self.findings and bool(self.document["copy_refused"])


@dataclass
class Tally:
    """What was done, of both servers together."""

    done: Counter[str] = field(default_factory=Counter[str])
    fired: Counter[str] = field(default_factory=Counter[str])
    foreign: int = 0

    def add(self, torment: Torment, foreigner: Foreigner) -> None:
        """Count what one half of the soak had."""
        tally = torment.acts.tally
        self.done["relay_kills"] += tally.relay_kills
        self.done["server_kills"] += tally.server_kills
        self.done["kills"] += tally.kills
        self.done["harmed_connections"] += tally.harms.total()
        for (point, action), amount in tally.fired.items():
            self.fired[f"{point} {action}"] += amount
        self.foreign += foreigner.transactions


def soak(amount: int, seed: int) -> Soaked:
    """Publish so many events through everything that can go wrong, and judge.

    Raises:
        RuntimeError: The soak itself broke.
    """
    began = time.monotonic()
    answers, tally = Answers(), Tally()
    with _directory() as directory, ExitStack() as stack:
        births = stack.enter_context(closing(Births(directory)))
        with Server(directory / "server") as server:
            scene = _Scene(directory, server, births=births, answers=answers)
            scene.play(amount // 2, seed, tally)
            other = stack.enter_context(Server(directory / "copy", is_empty=True))
            _say("copying")
            copy(server.dsn, other.dsn, directory / "copy.log")
        scene = _Scene(directory, other, births=births, answers=answers)
        refused = scene.refuses(tally, seed)
        scene.play(amount - amount // 2, seed + 1, tally)
        scene.drain()
        news = records.read_news(other.dsn)
        findings = verdict_events.judge_routing(answers, news)
        told = _told(directory)
    amounts = Counter(found.breach for found in findings)
    return Soaked(
        findings,
        {
            "events": len(news.published),
            "acknowledged": len(answers.acknowledged),
            "rolled_back": len(answers.undone),
            "commits_unknown": len(answers.unknown),
            "routed": len(news.routed),
            "subscriptions": len(SUBSCRIPTIONS),
            **tally.done,
            "failpoints_hit": tally.fired.total(),
            "foreign_transactions": tally.foreign,
            "copies": 1,
            "copy_refused": refused,
            "relay_refusals": told["relay.refused"],
            "events_lost": amounts[Breach.EVENTS_LOST],
            "events_doubled": amounts[Breach.EVENTS_DOUBLED],
            "events_reordered": amounts[Breach.EVENTS_REORDERED],
            "ghosts": amounts[Breach.GHOST],
            "torn": amounts[Breach.TORN],
            "seed": seed,
            "seconds": round(time.monotonic() - began, 1),
        },
    )


class _Scene:
    """One server, with relays before it and writers beside them."""

    def __init__(
        self, directory: Path, server: Server, *, births: Births, answers: Answers
    ) -> None:
        self._directory = directory
        self._server = server
        self._births = births
        self._answers = answers

    def play(self, amount: int, seed: int, tally: Tally) -> None:
        """Publish so many events while relays and server are harmed; what is routed is routed."""
        with self._fleet() as (fleet, wire):
            torment = Torment(Stage(self._server, wire, fleet, self._answers), seed)
            dsns = [self._server.dsn, self._server.other_dsn]
            foreigner = Foreigner(dsns, seed=seed)
            foreigner.start()
            writers = [
                Writer(
                    number,
                    self._server.dsn,
                    self._answers,
                    seed=seed,
                    events=amount // WRITERS,
                )
                for number in range(WRITERS)
            ]
            for writer in writers:
                writer.start()
            _say(f"{WRITERS} writers publish {amount} events")
            while any(writer.is_alive() for writer in writers):
                torment.turn()
                _check(writers)
            _check(writers)
            foreigner.quit()
            foreigner.join()
            tally.add(torment, foreigner)
            _say(f"{len(self._answers.acknowledged)} acknowledged, {dict(tally.done)}")

    def refuses(self, tally: Tally, seed: int) -> bool:
        """See that nothing is routed in a copy, publish into it, and let it go on by itself."""
        routed = self._routed()
        with self._fleet() as (fleet, _):
            writer = Writer(WRITERS, self._server.dsn, self._answers, seed=seed, events=100)
            writer.start()
            until = time.monotonic() + REFUSES_SECONDS
            fleet.wait(lambda: time.monotonic() > until, REFUSES_SECONDS + 1)
            writer.join()
            _check([writer])
        tally.done["copies"] += 1
        is_refused = self._routed() == routed
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            run_call(connection, events.rebase(actor="chaos", reason="the soak goes on here"))
        return is_refused

    def drain(self) -> None:
        """Let relays come to the end of what there is; the verdict tells if they do not."""
        with self._fleet() as (fleet, _):
            look_at = 0.0

            def is_drained() -> bool:
                nonlocal look_at
                if time.monotonic() < look_at:
                    return False
                look_at = time.monotonic() + LOOK_SECONDS
                return not records.left_over(self._server.dsn)["unrouted"]

            fleet.wait(is_drained, DRAIN_SECONDS_MAX)

    def _routed(self) -> int:
        return int(query.rows(self._server.dsn, "routed_amount")[0][0])

    @contextmanager
    def _fleet(self) -> Generator[tuple[Fleet, Wire]]:
        with Wire(self._server.dsn, self._directory) as wire:
            place = Place(self._directory, wire.dsn, slots=RELAYS, relays=tuple(range(RELAYS)))
            fleet = Fleet(place, self._births)
            if not fleet.wait(lambda: fleet.is_whole, READY_SECONDS_MAX):
                message = "the relays do not start"
                raise RuntimeError(message)
            try:
                yield fleet, wire
            finally:
                fleet.end_all()
            if fleet.unexpected:
                raise RuntimeError("; ".join(fleet.unexpected))


def _check(writers: list[Writer]) -> None:
    for writer in writers:
        if writer.failure is not None:
            raise writer.failure


@contextmanager
def _directory() -> Generator[Path]:
    disk = Path("/var/tmp")  # noqa: S108 - a private directory is made in it
    with tempfile.TemporaryDirectory(
        prefix="hudhud-outbox-", dir=disk if disk.is_dir() else None
    ) as folder:
        yield Path(folder)


def _told(directory: Path) -> Counter[str]:
    lines = (directory / TELEMETRY).read_text("utf-8").splitlines()
    return Counter(str(json.loads(line)["event"]) for line in lines)


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
