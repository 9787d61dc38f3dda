"""What a run came to, as the settlement that `finish` records. A plain success needs none."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hudhud.domain.job import Outcome
from hudhud.domain.payload import dump_value
from hudhud.domain.redact import clean, describe
from hudhud.errors import HudhudError, Permanent, Retryable, Snooze, Unknown
from hudhud.store.runs import Settlement

if TYPE_CHECKING:
    from hudhud.worker.context import Context
    from hudhud.worker.handler import AnyHandler

RESULT_BYTES_MAX: Final = 16_384
SNOOZE_SECONDS_MAX: Final = 366 * 86_400.0
_LAST_RESORT_SECONDS: Final = 60.0


def of_result(context: Context, result: object) -> Settlement:
    """Settle a success that returned something.

    Raises:
        HudhudError: When the result is not a JSON value of at most 16 KiB.
    """
    text = dump_value(result, bytes_max=RESULT_BYTES_MAX)
    return _settlement(context, Outcome.SUCCEED, result=text)


def of_error(context: Context, handler: AnyHandler, error: BaseException) -> Settlement:
    """Settle a run that ended with an exception; never raises an Exception."""
    if isinstance(error, Snooze):
        seconds = _bounded_seconds(error.seconds)
        return _settlement(context, Outcome.SNOOZE, code=error.code, delay_seconds=seconds)
    failure = describe(error)
    error_class = _class_of(error, handler)
    settlement = _settlement(
        context,
        Outcome.FAIL,
        code=failure.code,
        error=failure.text,
        fingerprint=failure.fingerprint,
        error_class=error_class,
    )
    if error_class == "permanent":
        return settlement
    after_seconds = error.after_seconds if isinstance(error, Retryable) else None
    return _retried(settlement, handler, context.attempt, after_seconds)


def of_timeout(context: Context, handler: AnyHandler) -> Settlement:
    """Settle a run whose time is up: a failed attempt like any, with the code `timeout`."""
    settlement = _settlement(
        context,
        Outcome.RETRY,
        code="timeout",
        error=f"The handler did not end within {handler.timeout_seconds:g} s.",
        fingerprint="timeout",
        error_class="retryable",
    )
    return _retried(settlement, handler, context.attempt, None)


def of_malformed(context: Context, error: HudhudError) -> Settlement:
    """Settle a job that its handler cannot be called with: dead at once, however often retried."""
    return _settlement(
        context,
        Outcome.FAIL,
        code="malformed",
        error=clean(str(error))[:2000],
        fingerprint="malformed",
        error_class="permanent",
    )


def expired(context: Context) -> Settlement:
    """Settle a job whose time to be run has passed: dead, never run."""
    return _settlement(context, Outcome.FAIL, code="expired", error_class="permanent")


def cancelled(context: Context) -> Settlement:
    """Settle a run that stopped because it was asked to."""
    return _settlement(context, Outcome.CANCEL)


def hand_back(context: Context, code: str) -> Settlement:
    """Give a job back that did not fail: its attempt is not counted."""
    return _settlement(context, Outcome.HAND_BACK, code=code)


def last_resort(settlement: Settlement) -> Settlement:
    """Reduce a settlement that the database would not take to what it surely takes."""
    is_success = settlement.outcome is Outcome.SUCCEED
    outcome = Outcome.RETRY if is_success else settlement.outcome
    goes_on = outcome in (Outcome.RETRY, Outcome.SNOOZE, Outcome.HAND_BACK)
    return Settlement(
        settlement.lease,
        settlement.position,
        outcome,
        code="unrecordable",
        delay_seconds=_LAST_RESORT_SECONDS if goes_on else None,
    )


def _settlement(context: Context, outcome: Outcome, **particulars: Any) -> Settlement:  # noqa: ANN401 - Settlement's own fields
    return Settlement(context.batch.lease_id, context.index + 1, outcome, **particulars)


def _class_of(error: BaseException, handler: AnyHandler) -> str:
    """Name the class of an error: a verdict's own, else by the handler's map, else retryable."""
    if isinstance(error, Permanent):
        return "permanent"
    if isinstance(error, Unknown):
        return "unknown"
    if isinstance(error, Retryable) or not isinstance(error, Exception):
        return "retryable"
    return handler.class_of(error) or "retryable"


def _retried(
    settlement: Settlement, handler: AnyHandler, attempt: int, after_seconds: float | None
) -> Settlement:
    policy = handler.retry.of(settlement.error_class or "retryable")
    return replace(
        settlement,
        outcome=Outcome.RETRY,
        delay_seconds=policy.delay(attempt, random.random, after_seconds=after_seconds),
        class_attempts_max=policy.attempts_max,
        age_seconds_max=policy.age_seconds_max,
    )


def _bounded_seconds(seconds: float) -> float:
    return min(max(seconds, 0.0), SNOOZE_SECONDS_MAX) if seconds == seconds else 0.0  # noqa: PLR0124 - NaN
