"""Laws of time limits: a run is settled at its limit, whatever its handler does about it."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest

from hudhud.config import WorkerConfig
from hudhud.domain.retry import RetryPolicy
from hudhud.errors import LeaseLostError
from hudhud.worker.handler import define
from hudhud.worker.worker import Addresses, Worker
from tests.support.application import Application, working
from tests.support.children import report_pid
from tests.support.gates import Gates, ThreadGates
from tests.support.jobs import Ended, Jobs, watching
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hudhud.worker.context import Context
    from hudhud.worker.runner import Attempt
    from tests.support.told import Told

AT_ONCE = RetryPolicy(base_seconds=0.001, delay_seconds_max=0.001)
LIMIT_SECONDS = 0.1


@pytest.fixture
async def jobs(database: str) -> AsyncGenerator[Jobs]:
    async with watching(database) as jobs:
        yield jobs


async def test_a_run_that_hangs_once_is_tried_again_as_after_any_failure(
    database: str, jobs: Jobs
) -> None:
    """A13."""
    application = Application()
    stopped: list[int] = []

    @application.handler("hang", timeout_seconds=LIMIT_SECONDS, retry=AT_ONCE)
    async def hang(ctx: Context) -> None:
        if ctx.attempt == 1:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(ctx.run)

    async with working(application, database):
        job = await jobs.add("hang", max_attempts=3)
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.ends(job) == [
            Ended(1, 1, "retry", "timeout"),
            Ended(2, 2, "succeed", None),
        ]
    assert stopped == [1]


async def test_a_coroutine_that_swallows_its_cancellation_is_settled_and_keeps_its_slot(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), Gates()
    refused: list[str] = []

    @application.handler("hang", timeout_seconds=LIMIT_SECONDS)
    async def hang(ctx: Context) -> None:
        while not gates["return"].is_set():
            try:
                await gates["return"].wait()
            except asyncio.CancelledError:
                continue
        for call in (lambda: ctx.log("x"), lambda: ctx.progress(1), ctx.transaction, ctx.check):
            with pytest.raises(LeaseLostError):
                call()
            refused.append("refused")

    @application.handler("quick")
    async def quick(_: Context) -> None:
        return

    async with working(application, database, concurrency=2) as worker:
        stuck = await jobs.add("hang", max_attempts=1)
        assert await jobs.until_ended(stuck) == ["dead"]
        assert await jobs.code(stuck) == "timeout"
        assert worker.runner.rooms()["async"] == 1
        others = await jobs.add_many("quick", [{}] * 5)
        assert await jobs.until_ended(*others) == ["succeeded"] * 5
        gates["return"].set()
        await auntil(lambda: not worker.runner.running)
        assert await jobs.ends(stuck) == [Ended(1, 1, "fail", "timeout")]
    assert refused == ["refused"] * 4


async def test_a_thread_past_its_limit_is_settled_its_thread_stays_taken_and_its_calls_are_refused(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), ThreadGates()
    refused: list[str] = []

    @application.handler("hang", timeout_seconds=LIMIT_SECONDS)
    def hang(ctx: Context) -> None:
        gates["return"].wait(60)
        for call in (lambda: ctx.log("x"), lambda: ctx.progress(1), ctx.transaction, ctx.check):
            with pytest.raises(LeaseLostError):
                call()
            refused.append(threading.current_thread().name)

    @application.handler("quick")
    def quick(ctx: Context) -> bool:
        return ctx.is_cancelled

    async with working(application, database, threads=8) as worker:
        stuck = await jobs.add("hang", max_attempts=1)
        assert await jobs.until_ended(stuck) == ["dead"]
        assert await jobs.code(stuck) == "timeout"
        assert worker.pools.lost_threads == 1
        assert worker.runner.rooms()["thread"] == 7
        others = await jobs.add_many("quick", [{}] * 20)
        assert await jobs.until_ended(*others) == ["succeeded"] * 20
        assert worker.pools.lost_threads == 1
        gates["return"].set()
        await auntil(lambda: worker.pools.lost_threads == 0)
        await auntil(lambda: worker.runner.rooms()["thread"] >= 8)
        assert await jobs.ends(stuck) == [Ended(1, 1, "fail", "timeout")]
    assert len(refused) == 4


async def test_a_process_past_its_limit_is_killed(database: str, jobs: Jobs) -> None:
    application = Application(
        define("hang", report_pid, kind="process", timeout_seconds=3),
        define("pid", report_pid, kind="process"),
    )
    async with working(application, database):
        # So that a process is there already: to start one may take longer than the limit.
        warm = await jobs.add("pid")
        await jobs.until_ended(warm)
        stuck = await jobs.add("hang", {"sleep_seconds": 600}, max_attempts=1)
        line = await jobs.until("select max(message) from hudhud.log where job_id = %s", stuck)
        other = await jobs.add("pid")
        assert await jobs.until_ended(stuck, other) == ["dead", "succeeded"]
        assert await jobs.code(stuck) == "timeout"
        assert line == f"pid {await jobs.result(warm)}"
        await auntil(lambda: not _lives(int(line.removeprefix("pid "))))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_process_that_lost_a_quarter_of_its_threads_hands_back_and_ends(
    database: str, jobs: Jobs, told: Told
) -> None:
    application, gates = Application(), ThreadGates()

    @application.handler("hang", timeout_seconds=LIMIT_SECONDS)
    def hang(_: Context) -> None:
        gates["return"].wait(60)

    @application.handler("wait")
    async def wait(_: Context) -> None:
        await asyncio.Event().wait()

    worker = Worker(
        application, Addresses(database, database), WorkerConfig(threads=8, stop_seconds=0)
    )
    working_until_worn = asyncio.create_task(worker.run())
    running = await jobs.add("wait")
    await jobs.until("select count(*) = 1 from hudhud.lease")
    stuck = await jobs.add_many("hang", [{}] * 2, max_attempts=1)
    async with asyncio.timeout(30):
        await working_until_worn
    gates["return"].set()
    assert await jobs.until_ended(*stuck) == ["dead", "dead"]
    assert await jobs.ends(running) == [Ended(1, 1, "hand_back", "interrupted")]
    assert await jobs.status(running) == "pending"
    assert told.of("worker.stopped")


async def test_a_run_that_committed_its_success_is_still_stopped_at_its_limit(
    database: str, jobs: Jobs
) -> None:
    application = Application()
    stopped: list[int] = []

    @application.handler("hang", timeout_seconds=LIMIT_SECONDS)
    async def hang(ctx: Context) -> None:
        async with ctx.transaction():
            pass
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(ctx.run)

    async with working(application, database) as worker:
        job = await jobs.add("hang")
        assert await jobs.until_ended(job) == ["succeeded"]
        await auntil(lambda: not worker.runner.running)
        assert await jobs.ends(job) == [Ended(1, 1, "succeed", None)]
    assert stopped == [1]


async def test_middleware_that_hangs_is_within_the_limit_too(database: str, jobs: Jobs) -> None:
    application = Application()

    async def hang(_: Context, call_next: Attempt) -> object:  # noqa: ARG001 - it never gets there
        return await asyncio.Event().wait()

    application.middleware = [hang]

    @application.handler("plain", timeout_seconds=LIMIT_SECONDS)
    def plain(_: Context) -> None:
        return

    async with working(application, database):
        job = await jobs.add("plain", max_attempts=1)
        assert await jobs.until_ended(job) == ["dead"]
        assert await jobs.code(job) == "timeout"


async def test_a_success_that_comes_after_the_limit_and_before_its_settlement_counts(
    database: str, jobs: Jobs
) -> None:
    application = Application()

    @application.handler("late", timeout_seconds=LIMIT_SECONDS)
    async def late(_: Context) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    async with working(application, database):
        job = await jobs.add("late")
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.result(job) == "done all the same"
