"""What will be done to whom, decided beforehand by one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from bench.chaos.points import COMBINATIONS, POINTS, Action
from bench.chaos.proxy import Harm, Order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Kind(StrEnum):
    """What is done."""

    KILL_WORKER = "kill_worker"
    KILL_SERVER = "kill_server"
    KILL_API = "kill_api"
    KILL_RELAY = "kill_relay"  # a worker without queues
    FAIL = "fail"  # at a failpoint, in one of four ways; one of them is a kill
    FREEZE = "freeze"  # SIGSTOP until after the lease, then SIGCONT
    TERMINATE = "terminate"  # a session of a worker, by the server
    STOP = "stop"  # in order, by SIGTERM
    HARM = "harm"  # of a connection, by the proxy
    HOLD = "hold"  # somebody's open transaction has rows that are claimable
    STANDBY = "standby"  # the sessions that are opened now are read-only for as long as they live


class Window(StrEnum):
    """The moment at which it is done, as the victim's board shows it."""

    CLAIMING = "claiming"  # a claim is at the server
    CLAIMED = "claimed"  # its answer has just come
    WORKING = "working"  # handlers run
    TRANSACTING = "transacting"  # between the fence and the commit of ctx.transaction()
    FINISHING = "finishing"  # a finish is at the server
    CALLING = "calling"  # an effect is under way: intended, called or about to be recorded
    CHECKING = "checking"  # intended, and just before the last check
    SENDING = "sending"  # between the last check and the first byte
    COMMITTING = "committing"  # a producer's commit is at the server
    REQUESTING = "requesting"  # somebody waits for an answer of the API


KILLS: Final = frozenset({Kind.KILL_WORKER, Kind.KILL_SERVER, Kind.KILL_API, Kind.KILL_RELAY})
# Other faults come on top of the kills, so many per kill.
BESIDE: Final[Mapping[Kind, float]] = {
    Kind.FREEZE: 0.08,
    Kind.TERMINATE: 0.1,
    Kind.STOP: 0.04,
    Kind.HARM: 0.15,
    Kind.HOLD: 0.03,
    Kind.STANDBY: 0.01,
}
# Each way to fail at each failpoint comes as often as this many kills go into a run; in a short one
# some of them come.
KILLS_PER_ROUND: Final = 250
WORDS: Final = (
    "COMMIT",
    *("hudhud.claim(", "hudhud.finish(", "hudhud.settle(", "hudhud.renew("),
    *("hudhud.intend(", "hudhud.close_effect(", "hudhud.relay(", "hudhud.enqueue("),
)
HOLE_SECONDS: Final = (0.5, 4.0)
LATE_SECONDS: Final = (0.5, 3.0)
LATE_MS: Final = (1, 60)
CUT_BYTES: Final = 3_000
_OF_WORKERS: Final = (
    *(Window.CLAIMING, Window.CLAIMED, Window.WORKING, Window.TRANSACTING),
    *(Window.FINISHING, Window.CALLING, Window.CALLING),
)
# A producer is at its commit a small part of the time: the server is killed then more often.
_OF_THE_SERVER: Final = (*_OF_WORKERS, *[Window.COMMITTING] * 3)
_OF_FREEZES: Final = (*_OF_WORKERS, Window.CHECKING, Window.CHECKING, *[Window.SENDING] * 2)


@dataclass(frozen=True, slots=True)
class Mix:
    """How much of everything there is in a plan.

    Attributes:
        server_share, api_share, relay_share: Of the kills.
        burst_share: Of the kills of workers, so many take two at once.
        beside: Of the other faults, so many per kill.
        rounds: How often each way to fail at each failpoint comes; None: by the number of kills.
        pause_seconds: What passes between two faults.
        frozen_seconds: Longer than the longest lease, so that it is lost meanwhile.
        sending_seconds: The same for those between check and write: longer than it takes to find
            out that nothing was done, and to do it.
        harms: Of the harm that the proxy does,
        words: and what it listens for.
        windows: Of workers that are killed,
        freezes: and of those that are frozen.
        points: Further ways to fail at failpoints,
        orders: and further harm.
    """

    server_share: float = 0.06
    api_share: float = 0.04
    relay_share: float = 0.03
    burst_share: float = 0.2
    beside: Mapping[Kind, float] = field(default_factory=lambda: BESIDE)
    rounds: int | None = None
    pause_seconds: tuple[float, float] = (0.02, 0.4)
    frozen_seconds: tuple[float, float] = (3.0, 5.5)
    sending_seconds: tuple[float, float] = (6.0, 9.0)
    harms: Sequence[Harm] = tuple(Harm)
    words: Sequence[str] = WORDS
    windows: Sequence[Window] = _OF_WORKERS
    freezes: Sequence[Window] = _OF_FREEZES
    points: Sequence[tuple[str, Action]] = ()
    orders: Sequence[Order] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is done.

    Attributes:
        kind: What.
        window: When: at the first such moment of the victim.
        choice: Who: the n-th of those that can be had, modulo their number.
        pause_seconds: What passes since the fault before.
        seconds: How long a frozen worker stands still, or somebody's transaction.
        victims: How many are killed at once.
        order: What the proxy is to do.
        point: The failpoint,
        action: and what is to happen there.
    """

    kind: Kind
    window: Window
    choice: int
    pause_seconds: float
    seconds: float = 0.0
    victims: int = 1
    order: Order | None = None
    point: str = ""
    action: Action | None = None

    @property
    def kills(self) -> int:
        """How many processes it kills."""
        if self.kind is Kind.FAIL:
            return int(self.action is Action.KILL and self.point in POINTS)
        return self.victims if self.kind in KILLS else 0


def plan(kills: int, seed: int, mix: Mix | None = None) -> list[Fault]:
    """Return the faults of a run, the same for the same arguments.

    Args:
        kills: How many processes are killed: workers, API processes and the server.
        seed: Of all choices.
        mix: How much of everything.
    """
    chance = random.Random(seed)  # noqa: S311 - a run that can be repeated, no secret
    found = list(_Planner(chance, mix or Mix()).faults(kills))
    chance.shuffle(found)
    return found


class _Planner:
    def __init__(self, chance: random.Random, mix: Mix) -> None:
        self._chance = chance
        self._mix = mix

    def faults(self, kills: int) -> Iterator[Fault]:
        mix = self._mix
        left = kills
        for point, action in (*self._combinations(kills), *mix.points):
            fault = self._fault(Kind.FAIL, Window.WORKING, point=point, action=action)
            left -= fault.kills
            yield fault
        for kind, share, windows in (
            (Kind.KILL_SERVER, mix.server_share, _OF_THE_SERVER),
            (Kind.KILL_API, mix.api_share, (Window.REQUESTING,)),
            (Kind.KILL_RELAY, mix.relay_share, (Window.WORKING,)),
        ):
            for _ in range(_share(kills, share, least=1) if left > 1 and share else 0):
                left -= 1
                yield self._fault(kind, *windows)
        while left > 0:
            victims = min(left, 2 if self._chance.random() < mix.burst_share else 1)
            left -= victims
            yield self._fault(Kind.KILL_WORKER, *mix.windows, victims=victims)
        for order in mix.orders:
            yield self._fault(Kind.HARM, Window.WORKING, order=order)
        for kind, share in mix.beside.items():
            for _ in range(_share(max(kills, 1), share, least=1) if share else 0):
                yield self._beside(kind)

    def _combinations(self, kills: int) -> list[tuple[str, Action]]:
        rounds = kills // KILLS_PER_ROUND if self._mix.rounds is None else self._mix.rounds
        if rounds or self._mix.rounds is not None:
            return list(COMBINATIONS) * rounds
        amount = round(kills * len(COMBINATIONS) / KILLS_PER_ROUND)
        return self._chance.sample(COMBINATIONS, min(amount, len(COMBINATIONS)))

    def _beside(self, kind: Kind) -> Fault:
        if kind is Kind.HARM:
            return self._fault(kind, Window.WORKING, order=self._order())
        return self._fault(kind, *(self._mix.freezes if kind is Kind.FREEZE else _OF_WORKERS))

    def _order(self) -> Order:
        chance = self._chance
        harm = chance.choice(self._mix.harms)
        choice = chance.randrange(1_000)
        match harm:
            case Harm.LOSE_REQUEST | Harm.LOSE_REPLY:
                return Order(harm, words=chance.choice(self._mix.words))
            case Harm.CUT:
                return Order(harm, choice=choice, amount=chance.randrange(CUT_BYTES))
            case Harm.HOLE:
                return Order(harm, choice=choice, seconds=chance.uniform(*HOLE_SECONDS))
            case Harm.DELAY:
                return Order(
                    harm,
                    choice=choice,
                    amount=chance.randint(*LATE_MS),
                    seconds=chance.uniform(*LATE_SECONDS),
                )
            case Harm.HALF_CLOSE:
                return Order(harm, choice=choice)

    def _fault(
        self,
        kind: Kind,
        *windows: Window,
        victims: int = 1,
        order: Order | None = None,
        point: str = "",
        action: Action | None = None,
    ) -> Fault:
        window = self._chance.choice(windows)
        is_sending = window is Window.SENDING
        frozen = self._mix.sending_seconds if is_sending else self._mix.frozen_seconds
        return Fault(
            kind,
            window,
            self._chance.randrange(1_000),
            self._chance.uniform(*self._mix.pause_seconds),
            seconds=self._chance.uniform(*frozen),
            victims=victims,
            order=order,
            point=point,
            action=action,
        )


def _share(kills: int, share: float, *, least: int) -> int:
    return max(least, round(kills * share))
