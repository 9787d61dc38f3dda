"""What will be done to whom, decided beforehand by one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What is done."""

    KILL_WORKER = "kill_worker"
    KILL_SERVER = "kill_server"
    FREEZE = "freeze"  # SIGSTOP until after the lease, then SIGCONT
    TERMINATE = "terminate"  # a session of a worker, by the server
    STOP = "stop"  # in order, by SIGTERM


class Window(StrEnum):
    """The moment at which it is done, as the victim's board shows it."""

    CLAIMING = "claiming"  # a claim is at the server
    CLAIMED = "claimed"  # its answer has just come
    WORKING = "working"  # handlers run
    TRANSACTING = "transacting"  # between the fence and the commit of ctx.transaction()
    FINISHING = "finishing"  # a finish is at the server
    CALLING = "calling"  # an effect is under way: intended, called or about to be recorded
    SENDING = "sending"  # between the last check and the first byte
    COMMITTING = "committing"  # a producer's commit is at the server


KILLS: Final = frozenset({Kind.KILL_WORKER, Kind.KILL_SERVER})
# Of all kills, so many are the server's; the other faults come on top, so many per kill.
SERVER_SHARE: Final = 0.12
BESIDE: Final = {Kind.FREEZE: 0.17, Kind.TERMINATE: 0.33, Kind.STOP: 0.1}
PAUSE_SECONDS: Final = (0.1, 1.0)
# Beyond the longest lease, so that it is lost while its worker stands still.
FROZEN_SECONDS: Final = (3.0, 5.5)
_OF_WORKERS: Final = tuple(window for window in Window if window is not Window.COMMITTING)
# A producer is at its commit a small part of the time: the server is killed then more often.
_OF_THE_SERVER: Final = (*_OF_WORKERS, *[Window.COMMITTING] * 3)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is done.

    Attributes:
        kind: What.
        window: When: at the first such moment of the victim.
        choice: Who: the n-th of those that can be had, modulo their number.
        pause_seconds: What passes since the fault before.
        frozen_seconds: How long a frozen worker stands still.
    """

    kind: Kind
    window: Window
    choice: int
    pause_seconds: float
    frozen_seconds: float


def plan(kills: int, seed: int) -> list[Fault]:
    """Return the faults of a run, the same for the same arguments.

    Args:
        kills: How many processes are killed: workers and the server.
        seed: Of all choices.
    """
    chance = random.Random(seed)  # noqa: S311 - a run that can be repeated, no secret
    servers = _share(kills, SERVER_SHARE) if kills > 1 else 0
    kinds = [Kind.KILL_SERVER] * servers + [Kind.KILL_WORKER] * (kills - servers)
    for kind, share in BESIDE.items():
        kinds += [kind] * _share(kills, share)
    chance.shuffle(kinds)
    return [
        Fault(
            kind,
            chance.choice(_OF_THE_SERVER if kind is Kind.KILL_SERVER else _OF_WORKERS),
            chance.randrange(1_000),
            chance.uniform(*PAUSE_SECONDS),
            chance.uniform(*FROZEN_SECONDS),
        )
        for kind in kinds
    ]


def _share(kills: int, share: float) -> int:
    return max(1, round(kills * share))
