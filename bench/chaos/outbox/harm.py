"""What is done to relays and to their server while they route, one thing after another."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.chaos.acts import Acts
from bench.chaos.fleet import Role
from bench.chaos.plan import Fault, Kind, Window
from bench.chaos.points import ACTIONS
from bench.chaos.proxy import Harm, Order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.chaos.acts import Stage

PAUSE_SECONDS: Final = (0.05, 0.5)
# Those inside of functions: whichever relay comes by.
POINTS: Final = ("relay.inserted", "relay.moved", "publish.written")
WORDS: Final = ("hudhud.relay(", "hudhud.due_subscriptions(")
SERVER_SHARE: Final = 0.08
RELAY_SHARE: Final = 0.4
POINT_SHARE: Final = 0.3  # the rest is harm to connections


@dataclass
class Torment:
    """Does harm for as long as it is asked to.

    Attributes:
        stage: Whom it is done to.
        seed: Of all choices.
    """

    stage: Stage
    seed: int
    acts: Acts = field(init=False)

    def __post_init__(self) -> None:
        self.acts = Acts(self.stage)
        self._faults = self._endless()

    def turn(self) -> None:
        """Do the next thing, and let the fleet live a moment."""
        fault = next(self._faults)
        until = time.monotonic() + fault.pause_seconds
        self.stage.fleet.wait(lambda: time.monotonic() >= until, fault.pause_seconds + 1)
        if self.stage.fleet.those(Role.RELAY):
            self.acts.do(fault)

    def _endless(self) -> Iterator[Fault]:
        chance = random.Random(f"torment {self.seed}")  # noqa: S311 - no secret
        while True:
            kind = self._kind(chance.random())
            yield Fault(
                kind,
                Window.COMMITTING,
                chance.randrange(1_000),
                chance.uniform(*PAUSE_SECONDS),
                point=chance.choice(POINTS) if kind is Kind.FAIL else "",
                action=chance.choice(ACTIONS) if kind is Kind.FAIL else None,
                order=_order(chance) if kind is Kind.HARM else None,
            )

    def _kind(self, number: float) -> Kind:
        for kind, share in (
            (Kind.KILL_SERVER, SERVER_SHARE),
            (Kind.KILL_RELAY, RELAY_SHARE),
            (Kind.FAIL, POINT_SHARE),
        ):
            if number < share:
                return kind
            number -= share
        return Kind.HARM


def _order(chance: random.Random) -> Order:
    harm = chance.choice((Harm.LOSE_REPLY, Harm.LOSE_REQUEST, Harm.CUT, Harm.HALF_CLOSE))
    if harm in (Harm.LOSE_REPLY, Harm.LOSE_REQUEST):
        return Order(harm, words=chance.choice(WORDS))
    choice = chance.randrange(1_000)
    return Order(harm, choice=choice, application="hudhud relay", amount=chance.randrange(3_000))
