"""hudhud.domain.retry: delays stay in their bounds, whatever the numbers."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudhud.domain.retry import (
    AFTER_SECONDS_MAX,
    BASE_SECONDS_LIMITS,
    DELAY_SECONDS_LIMITS,
    FACTOR_LIMITS,
    RetryPolicy,
)
from hudhud.errors import ConfigError

policies = st.builds(
    RetryPolicy,
    base_seconds=st.floats(*BASE_SECONDS_LIMITS),
    factor=st.floats(*FACTOR_LIMITS),
    delay_seconds_max=st.floats(*DELAY_SECONDS_LIMITS),
)
draws = st.floats(0, 1, exclude_max=True)


def test_the_bounds_are_one_two_four_eight_seconds_and_then_capped() -> None:
    policy = RetryPolicy()
    assert [policy.bound(attempt) for attempt in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert policy.bound(12) == 2048
    assert policy.bound(13) == policy.bound(10**9) == 3600


@pytest.mark.parametrize("attempt", [1, 16, 47, 1024, 5000])
def test_no_attempt_number_overflows_the_delay(attempt: int) -> None:
    """A10: the exponent is clamped before the product."""
    policy = RetryPolicy(base_seconds=5, factor=5, delay_seconds_max=3600)
    assert 0 < policy.delay(attempt, lambda: 0.999999999) <= 3600
    assert 0 < policy.delay(attempt, lambda: 0.0) <= 3600


@given(policies, st.integers(), draws)
def test_every_policy_answers_every_attempt_within_its_bound(
    policy: RetryPolicy, attempt: int, draw: float
) -> None:
    """A10."""
    bound = policy.bound(attempt)
    assert 0 < bound <= policy.delay_seconds_max
    assert 0 < policy.delay(attempt, lambda: draw) <= bound


@given(policies, st.integers(1, 1000))
def test_bounds_never_shrink(policy: RetryPolicy, attempt: int) -> None:
    assert policy.bound(attempt) <= policy.bound(attempt + 1)


@pytest.mark.parametrize(("attempt", "bound"), [(1, 1), (2, 2), (3, 4), (4, 8), (20, 3600)])
def test_delays_are_uniform_below_the_bound(attempt: int, bound: float) -> None:
    policy, source = RetryPolicy(), random.Random(1)  # noqa: S311 - no secret
    delays = sorted(policy.delay(attempt, source.random) for _ in range(2000))
    # Kolmogorov-Smirnov: a true uniform sample exceeds 1.95 / sqrt(n) once in a thousand times.
    distance = max(
        abs(delay / bound - rank / len(delays)) for rank, delay in enumerate(delays, start=1)
    )
    assert distance < 1.95 / math.sqrt(len(delays))


def test_a_provider_that_asks_for_more_is_respected_up_to_a_week() -> None:
    policy = RetryPolicy(delay_seconds_max=10)
    assert policy.delay(1, random.random, after_seconds=7200) == 7200
    assert policy.delay(1, random.random, after_seconds=10**9) == AFTER_SECONDS_MAX
    assert policy.delay(1, random.random, after_seconds=math.inf) == AFTER_SECONDS_MAX


@pytest.mark.parametrize("after_seconds", [None, 0, -5, math.nan, -math.inf])
def test_a_provider_that_asks_for_nothing_leaves_the_jitter(after_seconds: float | None) -> None:
    assert RetryPolicy().delay(1, lambda: 0.25, after_seconds=after_seconds) == 0.75


def test_a_class_of_errors_may_have_a_policy_of_its_own() -> None:
    own = RetryPolicy(base_seconds=60, attempts_max=3)
    policy = RetryPolicy(classes={"unknown": own})
    assert policy.of("unknown") is own
    assert policy.of("retryable") is policy


@pytest.mark.parametrize(
    "fields",
    [
        {"base_seconds": 0},
        {"base_seconds": math.nan},
        {"factor": 0.5},
        {"factor": math.inf},
        {"delay_seconds_max": -1},
        {"attempts_max": 0},
        {"attempts_max": 40_000},
        {"age_seconds_max": 0},
        {"classes": {"permanent": RetryPolicy()}},
    ],
)
def test_a_policy_out_of_bounds_is_refused_when_it_is_made(fields: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="RetryPolicy"):
        RetryPolicy(**fields)  # type: ignore[arg-type] # what users who do not check types do
