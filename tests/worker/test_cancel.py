"""Laws of cancelling what runs: it ends cancelled only if its handler stopped; success wins."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from hudhud.config import WorkerConfig
from hudhud.errors import Retryable
from hudhud.worker.handler import define
from hudhud.worker.worker import Addresses, Worker
from tests.support.application import Application, working
from tests.support.children import report_pid
from tests.support.gates import Gates, ThreadGates
from tests.support.jobs import Ended, Jobs, watching
from tests.support.pace import set_pace
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from uuid import UUID

    from hudhud.worker.context import Context


@pytest.fixture
async def jobs(database: str) -> AsyncGenerator[Jobs]:
    async with watching(database) as jobs:
        yield jobs


async def test_a_coroutine_is_cancelled_and_its_job_with_it(database: str, jobs: Jobs) -> None:
    application, gates = Application(), Gates()
    stopped: list[bool] = []

    @application.handler("wait")
    async def wait(ctx: Context) -> None:
        gates["started"].set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(ctx.is_cancelled)

    async with working(application, database):
        job = await jobs.add("wait")
        await gates["started"].wait()
        assert await jobs.cancel(job) == "requested"
        assert await jobs.until_ended(job) == ["cancelled"]
        assert await jobs.ends(job) == [Ended(1, 1, "cancel", None)]
    assert stopped == [True]


async def test_a_handler_that_finishes_all_the_same_has_succeeded(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), Gates()

    @application.handler("wait")
    async def wait(_: Context) -> str:
        gates["started"].set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"
        return "never"

    async with working(application, database):
        job = await jobs.add("wait")
        await gates["started"].wait()
        assert await jobs.cancel(job) == "requested"
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.result(job) == "done"


async def test_a_thread_is_told_and_ends_cancelled_when_it_stops(database: str, jobs: Jobs) -> None:
    application, gates = Application(), ThreadGates()

    @application.handler("wait")
    def wait(ctx: Context, *, stops: bool) -> None:
        gates["started"].set()
        while not ctx.is_cancelled:
            gates["never"].wait(0.01)
        if stops:
            message = "stopped as asked"
            raise RuntimeError(message)

    async with working(application, database):
        stopping, going_on = await jobs.add_many("wait", [{"stops": True}, {"stops": False}])
        await auntil(gates["started"].is_set)
        await jobs.until("select count(*) = 1 from hudhud.lease")
        assert await jobs.cancel(stopping) == "requested"
        assert await jobs.cancel(going_on) == "requested"
        assert await jobs.until_ended(stopping, going_on) == ["cancelled", "succeeded"]


async def test_a_process_is_killed_and_ends_cancelled(database: str, jobs: Jobs) -> None:
    application = Application(define("wait", report_pid, kind="process"))
    async with working(application, database):
        job = await jobs.add("wait", {"sleep_seconds": 600})
        line = await jobs.until("select max(message) from hudhud.log")
        assert await jobs.cancel(job) == "requested"
        assert await jobs.until_ended(job) == ["cancelled"]
        await auntil(lambda: not _lives(int(line.removeprefix("pid "))))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_claimed_job_that_has_not_started_is_cancelled_without_a_run(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), Gates()
    started: list[str] = []

    @application.handler("wait")
    async def wait(_: Context, *, name: str) -> None:
        started.append(name)
        await gates[name].wait()

    async with working(application, database, concurrency=1) as worker:
        first = await jobs.add("wait", {"name": "first"})
        await auntil(lambda: worker.runner.running)
        set_pace(worker.runner, "async", 5)
        second = await jobs.add("wait", {"name": "second"})
        await jobs.until("select count(*) = 2 from hudhud.lease")
        await auntil(lambda: worker.runner.rooms()["async"] == 0)
        assert await jobs.cancel(second) == "requested"
        assert await jobs.until_ended(second) == ["cancelled"]
        gates["first"].set()
        assert await jobs.until_ended(first) == ["succeeded"]
    assert started == ["first"]


@pytest.mark.parametrize("way", ["retry", "rescue"])
async def test_a_request_that_reached_nobody_is_honoured_by_what_comes_next(
    database: str, jobs: Jobs, *, way: str
) -> None:
    """Retry and rescue end the job as cancelled instead of making another run of it."""
    application, gates = Application(), ThreadGates()

    @application.handler("wait")
    def wait(_: Context) -> None:
        gates["started"].set()
        gates["fail"].wait(30)
        raise Retryable

    async with working(application, database):
        job = await jobs.add("wait")
        await auntil(gates["started"].is_set)
        assert await jobs.cancel(job) == "requested"
        if way == "rescue":
            await jobs.connection.execute("update hudhud.lease set locked_until = '-infinity'")
            assert await jobs.until_ended(job) == ["cancelled"]
        gates["fail"].set()
        assert await jobs.until_ended(job) == ["cancelled"]
        assert len(await jobs.ends(job)) == 1


async def test_a_request_that_is_ignored_beyond_the_time_limit_ends_the_job_cancelled(
    database: str, jobs: Jobs
) -> None:
    """The limit holds for a run that was asked to stop as for any; its slot is not lost."""
    application, gates = Application(), ThreadGates()

    @application.handler("wait", timeout_seconds=3)
    def wait(_: Context) -> None:
        gates["started"].set()
        gates["return"].wait(60)

    async with working(application, database, threads=8) as worker:
        job = await jobs.add("wait")
        await auntil(gates["started"].is_set)
        assert await jobs.cancel(job) == "requested"
        assert await jobs.until_ended(job) == ["cancelled"]
        assert worker.pools.lost_threads == 1
        gates["return"].set()


async def test_a_request_that_comes_before_its_worker_knows_of_the_run_is_not_lost(
    database: str, jobs: Jobs
) -> None:
    """The loop may stand still between the claim's commit and the worker's reading of it."""
    application = Application()

    @application.handler("wait")
    async def wait(_: Context) -> None:
        await asyncio.Event().wait()

    worker = Worker(application, Addresses(database, database), WorkerConfig())
    told: list[int] = []

    def deaf_once(job_id: UUID, run: int) -> None:
        told.append(run)
        if len(told) > 1:
            worker.runner.cancel(job_id, run)

    worker.keeper._on_cancel = deaf_once  # noqa: SLF001 - nobody can time such a moment
    await worker.start()
    job = await jobs.add("wait")
    await auntil(lambda: worker.runner.running)
    assert await jobs.cancel(job) == "requested"
    try:
        assert await jobs.until_ended(job) == ["cancelled"]
    finally:
        await worker.stop(within_seconds=0)
