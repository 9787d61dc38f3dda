"""What a run came to, as the settlement that `finish` records. A plain success needs none."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from datetime import timedelta
from math import isnan
from typing import TYPE_CHECKING, Any, Final, cast

import psycopg

from hudhud.domain.job import Outcome
from hudhud.domain.payload import RESULT_BYTES_MAX, dump_value
from hudhud.domain.redact import clean, describe
from hudhud.errors import (
    EffectMismatchError,
    HudhudError,
    Permanent,
    Retryable,
    Snooze,
    Unknown,
)
from hudhud.store.runs import Settlement

if TYPE_CHECKING:
    from hudhud.worker.handler import AnyHandler
    from hudhud.worker.run import Run

SNOOZE_SECONDS_MAX: Final = 366 * 86_400.0
_LAST_RESORT_SECONDS: Final = 60.0


def of_result(run: Run, result: object) -> Settlement:
    """Settle a success that returned something.

    A result that is no JSON value of at most 16 KiB makes the job dead: its work is done, and
    another run would do it again.
    """
    try:
        text = dump_value(result, bytes_max=RESULT_BYTES_MAX)
    except HudhudError as error:
        return of_refused_result(run, error)
    return _settlement(run, Outcome.SUCCEED, result=text)


def of_refused_result(run: Run, error: HudhudError) -> Settlement:
    """Settle a success whose result cannot be kept."""
    return _refused(run, "result_refused", error)


def of_error(run: Run, handler: AnyHandler, error: BaseException) -> Settlement:
    """Settle a run that ended with an exception; never raises one.

    An exception whose class forgot to make it whole, so that its own attributes are missing or of
    another type, is settled all the same.
    """
    try:
        return _of_error(run, handler, error)
    except BaseException:  # noqa: BLE001 - a run that cannot be settled would be running for ever
        failure = describe(error)
        settlement = _settlement(
            run,
            Outcome.RETRY,
            code="unrecordable",
            error=failure.text,
            fingerprint=failure.fingerprint,
            error_class="retryable",
        )
        return replace(settlement, delay_seconds=_LAST_RESORT_SECONDS)


def _of_error(run: Run, handler: AnyHandler, error: BaseException) -> Settlement:
    if isinstance(error, Snooze):
        seconds = _bounded_seconds(error.seconds)
        return _settlement(run, Outcome.SNOOZE, code=error.code, delay_seconds=seconds)
    if _is_plan_changed(error):
        return hand_back(run, "plan_changed")
    failure = describe(error)
    error_class = _class_of(error, handler)
    settlement = _settlement(
        run,
        Outcome.FAIL,
        code=failure.code,
        error=failure.text,
        fingerprint=failure.fingerprint,
        error_class=error_class,
    )
    if error_class == "permanent":
        return settlement
    after_seconds = None
    if isinstance(error, Retryable) and error.after_seconds is not None:
        after_seconds = _bounded_seconds(error.after_seconds)
    return _retried(run, handler, settlement, after_seconds=after_seconds)


def of_timeout(run: Run, handler: AnyHandler) -> Settlement:
    """Settle a run whose time is up: a failed attempt like any, with the code `timeout`."""
    settlement = _settlement(
        run,
        Outcome.RETRY,
        code="timeout",
        error=f"The handler did not end within {handler.timeout_seconds:g} s.",
        fingerprint="timeout",
        error_class="retryable",
    )
    return _retried(run, handler, settlement)


def of_open_effects(run: Run, handler: AnyHandler, settlement: Settlement | None) -> Settlement:
    """Settle a run that leaves effects of which nobody knows what became.

    It goes on when they have settled, or when an operator has decided; a snooze and a hand-back
    wait that long, too. Other verdicts and the class of what was raised do not count: an error in
    the middle of a call says nothing about its end.
    """
    for effect in run.effects.values():
        if effect.held_id is not None:
            return _settlement(run, Outcome.SNOOZE, code="effect_unknown", effect=effect.held_id)
    seconds = max(effect.reconcile_at for effect in run.effects.values()) - time.monotonic()
    ended = settlement or _settlement(run, Outcome.RETRY)
    seconds = max(seconds, ended.delay_seconds or 0.0)
    if ended.outcome not in (Outcome.SNOOZE, Outcome.HAND_BACK):
        ended = _retried(
            run,
            handler,
            _settlement(
                run,
                Outcome.RETRY,
                code="effect_unknown",
                error=ended.error,
                fingerprint=ended.fingerprint,
                error_class="unknown",
            ),
        )
    return replace(ended, delay_seconds=max(ended.delay_seconds or 0.0, seconds))


def of_malformed(run: Run, error: HudhudError) -> Settlement:
    """Settle a job that its handler cannot be called with: dead at once, however often retried."""
    return _refused(run, "malformed", error)


def expired(run: Run) -> Settlement:
    """Settle a job whose time to be run has passed: dead, without this run."""
    return _settlement(run, Outcome.FAIL, code="expired", error_class="permanent")


def cancelled(run: Run) -> Settlement:
    """Settle a run that stopped because it was asked to."""
    return _settlement(run, Outcome.CANCEL)


def hand_back(run: Run, code: str, *, delay_seconds: float = 0.0) -> Settlement:
    """Give a job back that did not fail: its attempt is not counted."""
    return _settlement(run, Outcome.HAND_BACK, code=code, delay_seconds=delay_seconds)


def last_resort(settlement: Settlement, error: Exception) -> Settlement:
    """Reduce a settlement that the database would not take, with this error, to what it takes."""
    is_success = settlement.outcome is Outcome.SUCCEED
    outcome = Outcome.RETRY if is_success else settlement.outcome
    goes_on = outcome in (Outcome.RETRY, Outcome.SNOOZE, Outcome.HAND_BACK)
    return Settlement(
        settlement.lease,
        settlement.position,
        outcome,
        code="unrecordable",
        error=f"What the run came to could not be recorded: {type(error).__name__}.",
        delay_seconds=_LAST_RESORT_SECONDS if goes_on else None,
    )


def _refused(run: Run, code: str, error: HudhudError) -> Settlement:
    return _settlement(
        run,
        Outcome.FAIL,
        code=code,
        error=clean(str(error))[:2000],
        fingerprint=code,
        error_class="permanent",
    )


def _settlement(run: Run, outcome: Outcome, **particulars: Any) -> Settlement:  # noqa: ANN401 - Settlement's own fields
    return Settlement(run.batch.lease_id, run.index + 1, outcome, **particulars)


def _class_of(error: BaseException, handler: AnyHandler) -> str:
    """Name the class of an error: a verdict's own, else by the handler's map, else retryable."""
    if isinstance(error, Permanent | EffectMismatchError):
        return "permanent"
    if isinstance(error, Unknown):
        return "unknown"
    if isinstance(error, Retryable) or not isinstance(error, Exception):
        return "retryable"
    return handler.class_of(error) or "retryable"


def _is_plan_changed(error: BaseException) -> bool:
    """Whether a prepared statement's columns were changed meanwhile; prepared anew, it will run.

    PostgreSQL has no code of its own for that, and translates the text.
    """
    if not isinstance(error, psycopg.errors.FeatureNotSupported):
        return False
    return error.diag.source_function == "RevalidateCachedQuery"


def _retried(
    run: Run, handler: AnyHandler, settlement: Settlement, *, after_seconds: float | None = None
) -> Settlement:
    policy = handler.retry.of(settlement.error_class or "retryable")
    return replace(
        settlement,
        outcome=Outcome.RETRY,
        delay_seconds=policy.delay(run.attempt, random.random, after_seconds=after_seconds),
        class_attempts_max=policy.attempts_max,
        age_seconds_max=policy.age_seconds_max,
    )


def _bounded_seconds(seconds: float) -> float:
    """Return seconds from 0 to a year, as whoever raised the verdict meant them; NaN is 0."""
    given = cast("float | timedelta", seconds)
    number = given.total_seconds() if isinstance(given, timedelta) else float(given)
    return 0.0 if isnan(number) else min(max(number, 0.0), SNOOZE_SECONDS_MAX)
