"""What a run is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bench.chaos.director import RESUME_SECONDS_MAX
from bench.chaos.intents import WEIGHTS
from bench.chaos.load import JOBS_PER_SECOND
from bench.chaos.plan import Mix

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Liveness only; what crashed is tried one at a time by each worker, and there may be hundreds.
DRAIN_SECONDS_MAX: Final = 300.0


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is asked for.

    Attributes:
        kills: How many.
        seed: Of every random choice.
        seconds: After so many no further fault is begun.
        workers, relays, apis: Processes in the fleet.
        directory: Where everything is kept; None for a temporary one.
        template: A server's directory that has been made before and stopped; None to make one.
        mix: How much of which fault.
        weights: How often each type of job comes.
        taste: Further particulars of the load, as `Taste` has them.
        bad_share: Of the ledger's calls that it does not take well,
        late_seconds: and how late it is then.
        jobs_per_second: Of the load.
        resume_seconds: After so long without an end of a run the queue stands still.
        drain_seconds: So long it may take to come to an end.
        tooth: A fault that is planted; "" for none.
        watched: Breaches after the first of which the run is over: of those that are never a
            matter of what is still under way.
    """

    kills: int
    seed: int
    seconds: float
    workers: int = 4
    relays: int = 1
    apis: int = 2
    directory: Path | None = None
    template: Path | None = None
    mix: Mix = field(default_factory=Mix)
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    taste: Mapping[str, Any] = field(default_factory=dict[str, Any])
    bad_share: float = 0.2
    late_seconds: float = 0.4
    jobs_per_second: float = JOBS_PER_SECOND
    resume_seconds: float = RESUME_SECONDS_MAX
    drain_seconds: float = DRAIN_SECONDS_MAX
    tooth: str = ""
    watched: frozenset[str] = frozenset()

    @property
    def dedups(self) -> bool:
        """Whether the ledger acts upon a key once; in half of all runs it knows nothing again."""
        return self.seed % 2 == 0
