"""Laws of failing: when a job runs again, when it does not, and what is kept of why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, cast

import psycopg
import pytest
from typing_extensions import override

from hudhud.domain.retry import RetryPolicy
from hudhud.errors import Permanent, Retryable, Snooze, Unknown
from hudhud.store import test_clock
from tests.support.application import Application, working
from tests.support.jobs import Ended, Jobs, watching

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from hudhud.worker.context import Context
    from tests.support.server import Server

SAMPLES = 200
# Of the largest distance to a uniform distribution; a fair sample of 200 is beyond it once in 10^9.
DISTANCE_MAX = 0.235


@pytest.fixture
async def jobs(database: str) -> AsyncGenerator[Jobs]:
    async with watching(database) as jobs:
        yield jobs


async def test_the_delays_of_attempts_1_to_4_are_uniform_below_1_2_4_and_8_seconds(
    database: str, jobs: Jobs, server: Server
) -> None:
    application = Application()

    @application.handler("fail")
    async def fail(_: Context) -> None:
        message = "always"
        raise RuntimeError(message)

    with psycopg.connect(server.direct(database), autocommit=True) as clock:
        test_clock.set_clock(clock, datetime(2026, 1, 1, tzinfo=UTC))
        async with working(application, database, concurrency=SAMPLES):
            await jobs.add_many("fail", [{}] * SAMPLES, max_attempts=5)
            for attempt in (1, 2, 3, 4):
                await jobs.until(
                    "select count(*) = %s from hudhud.scheduled where attempt = %s",
                    SAMPLES,
                    attempt,
                )
                delays = await jobs.rows(
                    "select extract(epoch from available_at - hudhud.clock())::float8"
                    " from hudhud.scheduled where attempt = %s",
                    attempt,
                )
                distance = _distance([delay for (delay,) in delays], 2.0 ** (attempt - 1))
                assert distance < DISTANCE_MAX
                test_clock.advance(clock, timedelta(seconds=8))
            await jobs.until(
                "select count(*) = %s from hudhud.outcome where outcome = 'fail'", SAMPLES
            )


def _distance(delays: list[float], bound: float) -> float:
    """Return how far a sample is from uniform on (0, bound] (Kolmogorov and Smirnov)."""
    assert len(delays) == SAMPLES
    assert all(0 < delay <= bound for delay in delays)
    places = enumerate(sorted(delays))
    return max(
        max(abs(rank / SAMPLES - delay / bound), abs((rank + 1) / SAMPLES - delay / bound))
        for rank, delay in places
    )


async def test_a_permanent_error_ends_the_job_at_its_first_attempt(
    database: str, jobs: Jobs
) -> None:
    application = Application()

    @application.handler("fail")
    async def fail(_: Context) -> None:
        message = "the account is closed"
        raise Permanent(message, code="account_closed")

    async with working(application, database):
        job = await jobs.add("fail")
        assert await jobs.until_ended(job) == ["dead"]
        assert await jobs.ends(job) == [Ended(1, 1, "fail", "account_closed")]
        assert await jobs.rows("select class, error from hudhud.outcome") != []
        ((error_class, error),) = await jobs.rows("select class, error from hudhud.outcome")
    assert error_class == "permanent"
    assert "the account is closed" in error


async def test_a_retryable_error_waits_at_least_as_long_as_it_says(
    database: str, jobs: Jobs
) -> None:
    application = Application()

    @application.handler("fail")
    async def fail(_: Context) -> None:
        message = "busy"
        raise Retryable(message, after_seconds=3_600)

    async with working(application, database):
        job = await jobs.add("fail")
        assert await jobs.until_run_ended(job) == Ended(1, 1, "retry", "retryable")
        assert await jobs.value(
            "select s.available_at = o.finished_at + interval '1 hour'"
            " from hudhud.scheduled s join hudhud.outcome o using (job_id)"
        )
        assert await jobs.status(job) == "retryable"


async def test_a_snooze_burns_no_attempt_however_often_it_happens(
    database: str, jobs: Jobs, server: Server
) -> None:
    """A12: the first real failure is the failure of attempt 1, and max_attempts stays."""
    application = Application()

    @application.handler("wait")
    async def wait(ctx: Context) -> None:
        if ctx.run < 40:
            raise Snooze(60)
        message = "now"
        raise RuntimeError(message)

    with psycopg.connect(server.direct(database), autocommit=True) as clock:
        test_clock.set_clock(clock, datetime(2026, 1, 1, tzinfo=UTC))
        async with working(application, database):
            job = await jobs.add("wait", max_attempts=3)
            for run in range(1, 40):
                assert await jobs.until_run_ended(job, run=run) == Ended(run, 1, "snooze", "snooze")
                test_clock.advance(clock, timedelta(seconds=60))
            assert await jobs.until_run_ended(job, run=40) == Ended(40, 1, "retry", "runtime_error")
            assert await jobs.value(
                "select available_at <= hudhud.clock() + interval '1 second' from hudhud.scheduled"
            )
            assert await jobs.rows(
                "select attempts, max_attempts from hudhud.job_status where id = %s", job
            ) == [(1, 3)]


async def test_a_run_far_beyond_any_smallint_counts_on(database: str, jobs: Jobs) -> None:
    """A12: as after 40,000 snoozes."""
    application = Application()

    @application.handler("wait")
    async def wait(_: Context) -> None:
        message = "now"
        raise RuntimeError(message)

    job = await jobs.add("wait", max_attempts=1)
    await jobs.connection.execute("update hudhud.ready set run = 40001")
    async with working(application, database):
        assert await jobs.until_ended(job) == ["dead"]
        assert await jobs.ends(job) == [Ended(40_001, 1, "fail", "runtime_error")]


async def test_an_error_is_of_the_class_that_the_map_gives_its_nearest_base(
    database: str, jobs: Jobs
) -> None:
    application = Application()
    errors = {"value": ValueError, "unicode": UnicodeError, "key": KeyError, "os": TimeoutError}

    @application.handler(
        "fail",
        errors={ValueError: "permanent", UnicodeError: "unknown", OSError: "permanent"},
        retry=RetryPolicy(base_seconds=0.001, delay_seconds_max=0.001),
    )
    async def fail(_: Context, *, name: str) -> None:
        raise errors[name]

    async with working(application, database):
        made = {name: await jobs.add("fail", {"name": name}, max_attempts=2) for name in errors}
        assert await jobs.until_ended(*made.values()) == ["dead"] * 4
        classes = {
            name: (
                await jobs.value(
                    "select array_agg(class order by run) from hudhud.outcome where job_id = %s",
                    job,
                )
            )
            for name, job in made.items()
        }
    assert classes == {
        "value": ["permanent"],
        "unicode": ["unknown", "unknown"],
        "key": ["retryable", "retryable"],
        "os": ["permanent"],
    }


async def test_each_class_has_attempts_and_delays_of_its_own(database: str, jobs: Jobs) -> None:
    application = Application()
    policy = RetryPolicy(
        base_seconds=0.001,
        delay_seconds_max=0.001,
        classes={
            "unknown": RetryPolicy(base_seconds=0.001, delay_seconds_max=0.001, attempts_max=2)
        },
    )

    @application.handler("fail", retry=policy)
    async def fail(ctx: Context) -> None:
        if ctx.attempt % 2:
            raise Unknown
        raise Retryable

    async with working(application, database):
        job = await jobs.add("fail")
        assert await jobs.until_ended(job) == ["dead"]
        assert [(end.outcome, end.code) for end in await jobs.ends(job)] == [
            ("retry", "unknown"),
            ("retry", "retryable"),
            ("fail", "unknown"),
        ]


async def test_a_job_past_its_age_is_not_tried_again(database: str, jobs: Jobs) -> None:
    application = Application()

    @application.handler("fail", retry=RetryPolicy(age_seconds_max=60))
    async def fail(_: Context) -> None:
        raise Retryable

    young, old = await jobs.add("fail"), await jobs.add("fail")
    await jobs.connection.execute(
        "update hudhud.job set created_at = created_at - interval '1 minute' where id = %s", (old,)
    )
    async with working(application, database):
        assert await jobs.until_ended(old) == ["dead"]
        assert (await jobs.until_run_ended(young)).outcome == "retry"


async def test_a_job_is_dead_after_its_last_attempt(database: str, jobs: Jobs) -> None:
    application = Application()

    @application.handler("fail", retry=RetryPolicy(base_seconds=0.001, delay_seconds_max=0.001))
    async def fail(_: Context) -> None:
        message = "always"
        raise RuntimeError(message)

    async with working(application, database):
        job = await jobs.add("fail", max_attempts=3)
        assert await jobs.until_ended(job) == ["dead"]
        assert [(end.run, end.attempt, end.outcome) for end in await jobs.ends(job)] == [
            (1, 1, "retry"),
            (2, 2, "retry"),
            (3, 3, "fail"),
        ]


class UnprintableError(Exception):
    @override
    def __str__(self) -> str:
        message = "not even that"
        raise RuntimeError(message)


class LeavingError(Exception):
    @override
    def __str__(self) -> str:
        raise SystemExit(3)


def _nested(levels: int) -> BaseException:
    error: BaseException = ValueError("innermost")
    for _ in range(levels):
        error = ExceptionGroup("group", [error]) if isinstance(error, Exception) else error
    return error


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (ValueError("a\x00b"), "a\ufffdb"),  # A44
        (ValueError("\ud800 alone"), "\ufffd alone"),
        (ValueError("x" * 10_000_000), "xxx"),
        (ValueError(b"\xff\x00" * 50_000), "xff"),
        (UnprintableError(), "UnprintableError: its text could not be read"),
        (LeavingError(), "LeavingError: its text could not be read"),
        (_nested(500), "ExceptionGroup"),
        (SystemExit(3), "SystemExit"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (type("سلام" + "c" * 500, (Exception,), {})(), "سلام"),
        (Permanent("why", code="\x00 !" * 100), "why"),
        (RecursionError(), "RecursionError"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
async def test_a_failure_is_recorded_whatever_it_was_made_of(
    database: str, jobs: Jobs, *, error: BaseException, kept: str
) -> None:
    """And the worker goes on; a failure that cannot be written would be run for ever."""
    application = Application()

    @application.handler("fail")
    async def fail(_: Context, *, is_fine: bool) -> None:
        if not is_fine:
            raise error

    async with working(application, database):
        failing, fine = await jobs.add_many(
            "fail", [{"is_fine": False}, {"is_fine": True}], max_attempts=1
        )
        assert await jobs.until_ended(failing, fine) == ["dead", "succeeded"]
        text = await jobs.value("select error from hudhud.outcome where job_id = %s", failing)
    assert kept in text
    assert len(text) <= 4_000


class HollowSnoozeError(Snooze):
    def __init__(self) -> None:
        pass  # and so it has neither seconds nor a code


def _snooze(seconds: object) -> Snooze:
    return Snooze(cast("float", seconds))


def _retryable(seconds: object) -> Retryable:
    return Retryable("later", after_seconds=cast("float", seconds))


@pytest.mark.parametrize(
    "fail",
    [
        HollowSnoozeError,
        GeneratorExit,
        partial(_snooze, None),
        partial(_snooze, "soon"),
        partial(_retryable, timedelta(seconds=1)),
        partial(_retryable, "soon"),
    ],
)
async def test_no_exception_leaves_a_run_unsettled(
    database: str, jobs: Jobs, fail: Callable[[], BaseException]
) -> None:
    """A verdict that is not whole is a failure like any; its run would be running for ever."""
    application = Application()

    @application.handler("fail")
    async def fail_once(_: Context) -> None:
        raise fail()

    async with working(application, database):
        job = await jobs.add("fail", max_attempts=1)
        assert await jobs.until_ended(job) == ["dead"]
