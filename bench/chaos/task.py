"""One job of the load: what it does, how it stumbles, and how it must end."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.chaos import fact
from bench.chaos.fact import Fact
from hudhud import NewJob, Permanent, Retryable, Snooze

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudhud import Context

EFFECT: Final = "chaos.effect"  # async; its effect is a row written in ctx.transaction()
EFFECT_THREAD: Final = "chaos.effect_thread"
PLAIN: Final = "chaos.plain"  # async; its end is all there is of it
PLAIN_THREAD: Final = "chaos.plain_thread"
OUTSIDE: Final = "chaos.outside"  # async; its effects are acts of the ledger
OUTSIDE_THREAD: Final = "chaos.outside_thread"
WITH_EFFECT: Final = frozenset({EFFECT, EFFECT_THREAD})
WITH_ACTS: Final = frozenset({OUTSIDE, OUTSIDE_THREAD})
_SNOOZE_SECONDS: Final = 0.2
_AFTER_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The payload of one job.

    Attributes:
        number: Of the intent that it came from; no two intents have the same.
        is_bare: Whether no intent is committed with it: it came over HTTP, or from two rivals.
        child: 0, or its place among the jobs that its parent enqueued in ctx.transaction().
        work_ms: How long it works before it does anything,
        linger_ms: and how long between its effect and the commit.
        snoozes: So many runs at the beginning snooze.
        failures: So many attempts fail before anything was written,
        breaks: and so many more after their effect.
        dies: 1 when it fails for good at its first attempt that comes so far.
        children: Jobs that it enqueues in its transaction.
        facts: Events that it publishes in its transaction, each about the same thing.
        acts: Effects in the world outside, one after another.
        gap_ms: How long each stands still between its last check and the first byte.
        offer: What the ledger offers to who does not know: `find`, `dedups` or `none`.
    """

    number: int
    is_bare: bool = False
    child: int = 0
    work_ms: int = 0
    linger_ms: int = 0
    snoozes: int = 0
    failures: int = 0
    breaks: int = 0
    dies: int = 0
    children: int = 0
    facts: int = 0
    acts: int = 0
    gap_ms: int = 0
    offer: str = "find"

    @property
    def end(self) -> str:
        """The only outcome that its last run may have."""
        return "fail" if self.dies else "succeed"

    @property
    def act_names(self) -> list[str]:
        """The names of its effects outside."""
        return [f"act-{place}" for place in range(1, self.acts + 1)]

    @property
    def told(self) -> list[Fact]:
        """What it publishes."""
        first = self.number * fact.PER_TASK + fact.PER_TASK // 2
        about = f"a{self.number % fact.AGGREGATES}"
        return [Fact(first + place, about) for place in range(self.facts)]

    def job(self, type: str, **options: Any) -> NewJob:  # noqa: A002, ANN401 - as NewJob has them
        """Return it as a job of a type."""
        return NewJob(type, {"task": dataclasses.asdict(self)}, **options)

    def child_job(self, place: int) -> NewJob:
        """Return the job that it enqueues in its transaction, counted from 1."""
        child = dataclasses.replace(
            Task(number=self.number, child=place, work_ms=self.work_ms // 2),
            is_bare=self.is_bare,
        )
        return child.job(EFFECT)

    def stumble(self, ctx: Context) -> None:
        """Snooze or fail where this run is to.

        Raises:
            Verdict: What the handler is to end with.
            RuntimeError: A failure that nobody classified.
        """
        if ctx.run <= self.snoozes:
            raise Snooze(_SNOOZE_SECONDS)
        if self.dies:
            raise Permanent(code="planned")
        if ctx.attempt <= self.failures:
            if ctx.attempt % 2:
                raise Retryable(after_seconds=_AFTER_SECONDS)
            message = f"attempt {ctx.attempt} fails, as planned"
            raise RuntimeError(message)

    def break_after(self, ctx: Context) -> None:
        """Fail after the effect, where this attempt is to; in a transaction it is undone."""
        if self.failures < ctx.attempt <= self.failures + self.breaks:
            message = f"attempt {ctx.attempt} breaks after its effect, as planned"
            raise RuntimeError(message)


def task_of(payload: Mapping[str, Any]) -> Task:
    """Return the task that a payload holds."""
    return Task(**payload["task"])
