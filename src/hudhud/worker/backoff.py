"""How long to wait before the next try of something that just failed."""

from __future__ import annotations

import random
from dataclasses import dataclass

# 2 ** 64 s is far past every cap; beyond it a float power would overflow.
_EXPONENT_MAX = 64


@dataclass(slots=True)
class Backoff:
    """Growing, jittered delays between tries; at least half of each bound.

    Half of the bound is certain, so that a fleet spreads out but no single process can draw
    a row of near-zero delays and spin while its database is away.

    Attributes:
        base_seconds: Bound of the first delay; above 0.
        max_seconds: Bound that no later delay passes.
        tries: Failures since the last `reset`.
    """

    base_seconds: float = 0.1
    max_seconds: float = 5.0
    tries: int = 0

    def next_delay_seconds(self) -> float:
        """Count one more failure and say how long to wait, in seconds."""
        exponent = min(self.tries, _EXPONENT_MAX)
        self.tries += 1
        bound = min(self.base_seconds * 2.0**exponent, self.max_seconds)
        return bound * (0.5 + random.random() / 2)  # noqa: S311 - spreads load, guards nothing

    def reset(self) -> None:
        """Start again from the shortest delay; call it once the thing works."""
        self.tries = 0
