"""Laws of claiming: no more than can start at once, or within 200 ms at the measured pace."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from hudhud.worker.handler import define
from hudhud.worker.slots import Slots
from tests.support.application import Application, working
from tests.support.children import report_pid
from tests.support.gates import Gates, ThreadGates
from tests.support.jobs import Jobs, watching
from tests.support.pace import set_pace
from tests.support.wait import auntil

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hudhud.worker.context import Context


@pytest.fixture
async def jobs(database: str) -> AsyncGenerator[Jobs]:
    async with watching(database) as jobs:
        yield jobs


def test_what_a_worker_finishes_in_200_ms_may_be_claimed_ahead_of_free_slots() -> None:
    slots = Slots(10)
    slots.taken = 10
    assert slots.room() == 0
    for _ in range(3):
        slots.ended = 100
        slots.measure(0.1)
    assert slots.room() == 200


def test_no_more_is_claimed_while_half_of_that_waits() -> None:
    slots = Slots(10)
    slots.taken = 10
    for _ in range(3):
        slots.ended = 100
        slots.measure(0.1)
    slots.waiting.extend([cast("Context", None)] * 101)
    assert slots.room() == 0
    slots.waiting.popleft()
    assert slots.room() == 100


def test_a_burst_is_no_pace() -> None:
    """Ten long runs that end together must not make this worker claim the next twenty."""
    slots = Slots(10)
    slots.taken = 10
    for ended in (0, 10, 0, 0, 10):
        slots.ended = ended
        slots.measure(0.1)
        assert slots.room() == 0


async def test_a_worker_holds_no_more_jobs_than_it_runs(database: str, jobs: Jobs) -> None:
    application, gates = Application(), Gates()

    @application.handler("wait")
    async def wait(_: Context) -> None:
        await gates["finish"].wait()

    await jobs.add_many("wait", [{}] * 50)
    async with working(application, database, concurrency=3, stop_seconds=0) as worker:
        await auntil(lambda: len(worker.runner.running) == 3)
        # Another worker has room for the rest, at once.
        async with working(application, database, concurrency=47) as other:
            await auntil(lambda: len(other.runner.running) == 47)
            assert await jobs.held(worker.id) == 3
            gates["finish"].set()


async def test_threads_are_not_hoarded_for_though_the_loop_has_room(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), ThreadGates()

    @application.handler("wait")
    def wait(_: Context) -> None:
        gates["finish"].wait(60)

    made = await jobs.add_many("wait", [{}] * 30)
    async with working(application, database, concurrency=100, threads=4) as worker:
        await auntil(lambda: len(worker.runner.running) == 4)
        async with working(application, database, concurrency=100, threads=26) as other:
            await auntil(lambda: len(other.runner.running) == 26)
            assert await jobs.held(worker.id) == 4
            gates["finish"].set()
            assert await jobs.until_ended(*made) == ["succeeded"] * 30


async def test_a_fast_loop_does_not_claim_work_for_busy_threads(database: str, jobs: Jobs) -> None:
    """Its pace is the pace of async handlers; what needs a thread goes to whoever has one."""
    application, gates = Application(), ThreadGates()

    @application.handler("wait")
    def wait(_: Context) -> None:
        gates["finish"].wait(60)

    @application.handler("quick")
    async def quick(_: Context) -> None:
        return

    async with working(application, database, concurrency=100, threads=2) as worker:
        set_pace(worker.runner, "async", 10_000)
        await jobs.until_ended(*await jobs.add_many("quick", [{}] * 10))
        made = [await jobs.add(name) for _ in range(40) for name in ("wait", "quick")]
        async with working(application, database, threads=38) as other:
            await auntil(lambda: len(other.runner.running) == 38)
            await auntil(lambda: len(worker.runner.running) == 2)
            assert await jobs.held(worker.id) == 2
            gates["finish"].set()
            assert await jobs.until_ended(*made) == ["succeeded"] * 80
        # Whatever was handed back on the way has cost no attempt.
        assert await jobs.value("select count(*) from hudhud.outcome where attempt > 1") == 0


async def test_busy_threads_do_not_hold_up_what_needs_none(database: str, jobs: Jobs) -> None:
    """Neither in another lane, nor behind such jobs in their own."""
    application, gates = Application(), ThreadGates()

    @application.handler("wait")
    def wait(_: Context) -> None:
        gates["finish"].wait(60)

    @application.handler("quick")
    async def quick(_: Context) -> None:
        return

    async with working(application, database, threads=2) as worker:
        waiting = await jobs.add_many("wait", [{}] * 2)
        await auntil(lambda: len(worker.runner.running) == 2)
        behind = await jobs.add_many("quick", [{}] * 20)
        urgent = await jobs.add_many("quick", [{}] * 20, lane="critical")
        assert await jobs.until_ended(*behind, *urgent) == ["succeeded"] * 40
        gates["finish"].set()
        await jobs.until_ended(*waiting)


async def test_what_cannot_start_costs_a_hand_back_a_second_and_not_a_storm(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), ThreadGates()

    @application.handler("wait")
    def wait(_: Context) -> None:
        gates["finish"].wait(60)

    @application.handler("quick")
    async def quick(_: Context) -> None:
        return

    async with working(application, database, threads=1) as worker:
        made = await jobs.add_many("wait", [{}] * 10)
        await auntil(lambda: len(worker.runner.running) == 1)
        # Each try of the range takes one job and gives it back.
        await jobs.until("select count(*) >= 2 from hudhud.outcome where code = 'no_slot'")
        seconds = await jobs.value(
            "select extract(epoch from max(finished_at) - min(finished_at))::float8"
            " from hudhud.outcome where code = 'no_slot'"
        )
        tries = await jobs.value("select count(*) from hudhud.outcome where code = 'no_slot'")
        assert tries <= 2 + seconds / 0.5
        gates["finish"].set()
        assert await jobs.until_ended(*made) == ["succeeded"] * 10


async def test_processes_are_not_hoarded_for_either(database: str, jobs: Jobs) -> None:
    application = Application(define("pid", report_pid, kind="process"))
    async with working(application, database, stop_seconds=0) as worker:
        room = worker.runner.rooms()["process"]
        await jobs.add_many("pid", [{"sleep_seconds": 600}] * (room + 10))
        await jobs.until("select count(distinct job_id) = %s from hudhud.log", room)
        await auntil(lambda: len(worker.runner.running) == room)
        await jobs.until("select count(*) = 10 from hudhud.ready")


async def test_the_queues_of_a_worker_share_its_room(database: str, jobs: Jobs) -> None:
    application, gates = Application(), Gates()

    @application.handler("wait")
    async def wait(_: Context) -> None:
        await gates["finish"].wait()

    queues = tuple(f"queue_{number}" for number in range(8))
    for queue in queues:
        await jobs.add_many("wait", [{}] * 20, queue=queue)
    async with working(application, database, queues=queues, concurrency=10) as worker:
        await auntil(lambda: len(worker.runner.running) == 10)
        async with working(application, database, queues=queues, concurrency=150) as other:
            await auntil(lambda: len(other.runner.running) == 150)
            gates["finish"].set()
            await jobs.until("select count(*) = 160 from hudhud.outcome where outcome = 'succeed'")


async def test_a_suspect_that_finds_no_thread_is_offered_to_others(
    database: str, jobs: Jobs
) -> None:
    application, gates = Application(), ThreadGates()

    @application.handler("wait")
    def wait(_: Context) -> None:
        gates["finish"].wait(60)

    @application.handler("quick")
    async def quick(_: Context) -> None:
        return

    suspect = await jobs.add("wait", queue="later")
    await jobs.rows(
        "select hudhud.ranges('later'), hudhud.claim(gen_random_uuid(), 'later',"
        " array[2]::smallint[], array['default'], array[0]::bigint[], array[1], 30)"
    )
    await jobs.lose_all()
    async with working(application, database, threads=1) as worker:
        running = await jobs.add("wait")
        await auntil(lambda: len(worker.runner.running) == 1)
        await jobs.connection.execute("update hudhud.job set queue = 'default'")
        await jobs.connection.execute("update hudhud.ready set queue = 'default'")
        # It is offered in vain, again and again, and stays a suspect all the while.
        await jobs.until("select count(*) > 1 from hudhud.outcome where code = 'no_slot'")
        async with working(application, database, threads=1) as other:
            await auntil(lambda: len(other.runner.running) == 1)
            assert await jobs.value(
                "select is_suspect from hudhud.lease where worker_id = %s", other.id
            )
            gates["finish"].set()
            assert await jobs.until_ended(running, suspect) == ["succeeded"] * 2
