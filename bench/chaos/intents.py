"""What the load wants done: one intent after another, each with a number of its own."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.chaos import fact, task
from bench.chaos.application import QUEUES
from bench.chaos.fact import Fact
from bench.chaos.task import Task
from hudhud.domain.job import Lane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudhud import NewJob

TENANTS: Final = ("acme", "bolt", "core", "dune", "echo")
NUMBERS_EACH: Final = 10_000_000
KEY_SHARE: Final = 0.2
DELAY_SHARE: Final = 0.1
FACT_SHARE: Final = 0.4
FACTS_MAX: Final = 3
LONE_SHARE: Final = 0.1  # of the facts, so many are about nothing that has an order
GAP_SHARE: Final = 0.25
GAP_MS_MAX: Final = 40
NOBODY_KNOWS_SHARE: Final = 0.04  # of the effects outside
WEIGHTS: Final[Mapping[str, float]] = {
    task.EFFECT: 5,
    task.EFFECT_THREAD: 1,
    task.PLAIN: 3,
    task.PLAIN_THREAD: 1,
    task.OUTSIDE: 3,
    task.OUTSIDE_THREAD: 1,
}


_LINES: Final = tuple(itertools.product(Lane, QUEUES, TENANTS))


@dataclass(frozen=True, slots=True)
class Intent:
    """What a producer wants done."""

    number: int
    job: NewJob


@dataclass(frozen=True, slots=True)
class Taste:
    """What a load is made of.

    Attributes:
        weights: How often each type of job comes.
        dedups: Whether the ledger knows a key again.
        nobody_knows_share: Of the effects outside, so many can only be decided by an operator.
        fact_share: Of the transactions, so many publish.
        aggregates: So many things their facts are about.
        gap_share: Of the effects outside, so many stand between check and write for a moment.
        delay_share: Of the jobs, so many are due later.
        lines: In so many lines they stand: of a tenant, a lane and a queue each.
    """

    weights: Mapping[str, float]
    dedups: bool = False
    nobody_knows_share: float = NOBODY_KNOWS_SHARE
    fact_share: float = FACT_SHARE
    aggregates: int = fact.AGGREGATES
    gap_share: float = GAP_SHARE
    delay_share: float = DELAY_SHARE
    lines: int = len(_LINES)


class Intents:
    """Makes intents, the same for the same seed and place."""

    def __init__(self, place: int, *, seed: int, taste: Taste) -> None:
        """Make it.

        Args:
            place: Of whoever asks among all who do: no two intents have the same number.
            seed: Of all choices.
            taste: What they are to be.
        """
        self.name = str(place)
        self.chance = random.Random(f"{seed} {place}")  # noqa: S311 - can be repeated, no secret
        self._taste = taste
        self._next_number = place * NUMBERS_EACH

    def next(self, *, is_bare: bool = False) -> Intent:
        """Return the next one.

        Args:
            is_bare: Whether nobody commits an intent with it, and it has no key and tenant yet.
        """
        (number,) = self.numbers(1)
        chance = self.chance
        lane, queue, tenant = chance.choice(_LINES[: self._taste.lines])
        options: dict[str, Any] = {"lane": lane.value, "queue": queue}
        if not is_bare:
            options["tenant_id"] = tenant
            if chance.random() < KEY_SHARE:
                options["idempotency_key"] = f"intent-{number}"
            if chance.random() < self._taste.delay_share:
                options["delay_seconds"] = chance.uniform(0.1, 1.5)
        weights = self._taste.weights
        (name,) = chance.choices(list(weights), weights=list(weights.values()))
        return Intent(number, self._task(number, name, is_bare=is_bare).job(name, **options))

    def numbers(self, amount: int) -> range:
        """Take numbers that nothing else has."""
        first, self._next_number = self._next_number, self._next_number + amount
        return range(first, self._next_number)

    def facts(self) -> list[Fact]:
        """Return what the next transaction publishes, in the order in which to do it."""
        if self.chance.random() >= self._taste.fact_share:
            return []
        first = self._next_number * fact.PER_TASK
        about = sorted(
            f"a{self.chance.randrange(self._taste.aggregates)}"
            for _ in range(self.chance.randint(1, FACTS_MAX))
        )
        # In the order of what they are about, so that no two transactions wait for each other.
        return [
            Fact(first + place, None if self.chance.random() < LONE_SHARE else name)
            for place, name in enumerate(about)
        ]

    def _task(self, number: int, name: str, *, is_bare: bool) -> Task:
        def seldom(share: float, most: int) -> int:
            return self.chance.randint(1, most) if self.chance.random() < share else 0

        is_outside = name in task.WITH_ACTS
        return Task(
            number=number,
            is_bare=is_bare,
            # Now and then one that outlives its lease, and must be renewed.
            work_ms=seldom(0.02, 3_500) or int(self.chance.expovariate(1 / 60)),
            linger_ms=seldom(0.3, 60),
            snoozes=seldom(0.03, 2),
            failures=seldom(0.06, 2),
            breaks=seldom(0.04, 1),
            dies=seldom(0.02, 1),
            children=seldom(0.15, 3) if name in task.WITH_EFFECT else 0,
            facts=seldom(self._taste.fact_share / 3, 2) if name in task.WITH_EFFECT else 0,
            acts=1 + seldom(0.3, 1) if is_outside else 0,
            gap_ms=seldom(self._taste.gap_share, GAP_MS_MAX) if is_outside else 0,
            offer=self._offer(),
        )

    def _offer(self) -> str:
        if self.chance.random() < self._taste.nobody_knows_share:
            return "none"
        return self.chance.choice(["dedups", "find"]) if self._taste.dedups else "find"
