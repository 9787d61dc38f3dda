"""When a failed job runs again: full jitter below an exponential bound, capped.

The recording of a failure rests on these functions, so they hold for any attempt number: the
exponent is clamped before the power is taken, and no value of `random` or `after_seconds` raises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BASE_SECONDS_LIMITS = (0.001, 86_400.0)
FACTOR_LIMITS = (1.0, 100.0)
DELAY_SECONDS_LIMITS = (0.001, 30 * 86_400.0)
ATTEMPTS_LIMITS = (1, 32_767)  # a smallint in the database
AGE_SECONDS_LIMITS = (1.0, 10 * 366 * 86_400.0)
AFTER_SECONDS_MAX = 7 * 86_400.0  # a provider may ask for a week, not for a year
CLASSES = ("retryable", "unknown")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, how soon and how long a failed job is tried again.

    `attempts_max` and `age_seconds_max` (since the job was created) narrow the job's own
    max_attempts; None: no narrower. `classes` holds a policy of its own for "retryable" or
    "unknown" errors.

    Raises:
        ConfigError: When made with a value out of bounds.
    """

    base_seconds: float = 1.0
    factor: float = 2.0
    delay_seconds_max: float = 3_600.0
    attempts_max: int | None = None
    age_seconds_max: float | None = None
    classes: Mapping[str, RetryPolicy] = field(default_factory=dict[str, "RetryPolicy"])

    def __post_init__(self) -> None:
        _within("base_seconds", self.base_seconds, BASE_SECONDS_LIMITS)
        _within("factor", self.factor, FACTOR_LIMITS)
        _within("delay_seconds_max", self.delay_seconds_max, DELAY_SECONDS_LIMITS)
        if self.attempts_max is not None:
            _within("attempts_max", self.attempts_max, ATTEMPTS_LIMITS)
        if self.age_seconds_max is not None:
            _within("age_seconds_max", self.age_seconds_max, AGE_SECONDS_LIMITS)
        for name in self.classes:
            if name not in CLASSES:
                message = (
                    f"RetryPolicy.classes names {name!r}; it may name {' and '.join(CLASSES)}."
                )
                raise ConfigError(message)

    def of(self, error_class: str) -> RetryPolicy:
        """Return the policy for errors of a class: its own, or this one."""
        return self.classes.get(error_class, self)

    def bound(self, attempt: int) -> float:
        """Return the seconds that the delay after this attempt stays at or below.

        Args:
            attempt: Number of the attempt that failed, from 1; any integer is answered.

        Returns:
            base * factor**(attempt - 1), capped: by default 1, 2, 4, 8 s … 3600 s.
        """
        exponent = min(max(attempt - 1, 0), self._exponent_max())
        return min(self.base_seconds * self.factor**exponent, self.delay_seconds_max)

    def delay(
        self,
        attempt: int,
        random: Callable[[], float],
        *,
        after_seconds: float | None = None,
    ) -> float:
        """Return the seconds to wait after a failed attempt.

        Args:
            attempt: Number of the attempt that failed, from 1.
            random: Gives numbers in [0, 1), as `random.random` does.
            after_seconds: The least delay, as a provider asked for it; up to a week is respected.

        Returns:
            Uniform on (0, bound(attempt)], raised to after_seconds.
        """
        jittered = self.bound(attempt) * (1.0 - random())
        if after_seconds is None or not after_seconds > jittered:  # not >: a NaN asks for nothing
            return jittered
        return min(after_seconds, AFTER_SECONDS_MAX)

    def _exponent_max(self) -> int:
        """The first exponent that surely reaches the cap."""
        if self.factor == 1.0 or self.base_seconds >= self.delay_seconds_max:
            return 0
        return math.ceil(math.log(self.delay_seconds_max / self.base_seconds, self.factor)) + 1


def _within(name: str, value: float, limits: tuple[float, float]) -> None:
    low, high = limits
    if not low <= value <= high:
        message = f"RetryPolicy.{name} must be from {low:g} to {high:g}, not {value}."
        raise ConfigError(message)
