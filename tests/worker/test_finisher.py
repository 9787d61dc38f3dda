"""Laws of recording: each run ends as it ended, whatever else is being written at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from hudhud.errors import Permanent
from tests.support.application import Application, working
from tests.support.gates import Gates
from tests.support.jobs import Ended, watching
from tests.support.wait import auntil

if TYPE_CHECKING:
    from hudhud.worker.context import Context
    from tests.support.told import Told


async def test_a_failure_that_comes_while_a_finish_is_in_flight_is_not_taken_for_a_success(
    database: str,
) -> None:
    application, gates = Application(), Gates()

    @application.handler("step")
    async def step(_: Context, *, name: str, fails: bool = False) -> None:
        await gates[name].wait()
        assert not fails, "told to fail"

    async with watching(database) as jobs:
        first, failing, last = await jobs.add_many(
            "step",
            [{"name": "first"}, {"name": "failing", "fails": True}, {"name": "last"}],
            max_attempts=1,
        )
        async with working(application, database) as worker:
            await auntil(lambda: len(worker.runner.running) == 3)
            other = await jobs.add("step", {"name": "other"})
            await auntil(lambda: len(worker.runner.running) == 4)
            async with await psycopg.AsyncConnection.connect(database) as holder:
                await holder.execute(
                    "select from hudhud.lease where %s = any (job_ids) for update", (first,)
                )
                gates["first"].set()
                await jobs.until(
                    "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock'"
                    " and datname = current_database()"
                )
                gates["failing"].set()
                await auntil(lambda: len(worker.runner.running) == 2)
            await jobs.until_run_ended(first)
            gates["other"].set()
            await jobs.until_run_ended(other)
            gates["last"].set()
            await jobs.until_ended(first, failing, last, other)
            assert await jobs.status(failing) == "dead"
            assert await jobs.status(last) == "succeeded"


async def test_an_end_that_the_database_refuses_is_recorded_bare_and_its_neighbours_whole(
    database: str, told: Told
) -> None:
    application = Application()

    @application.handler("step")
    async def step(_: Context, *, refused: bool, fails: bool) -> int:
        if refused:
            message = "unspeakable"
            raise Permanent(message)
        if fails:
            message = "speakable"
            raise Permanent(message)
        return 7

    async with watching(database) as jobs:
        await jobs.connection.execute(
            "alter table hudhud.outcome add check (error not like '%unspeakable%')"
        )
        refused, failed, fine = await jobs.add_many(
            "step",
            [
                {"refused": True, "fails": False},
                {"refused": False, "fails": True},
                {"refused": False, "fails": False},
            ],
        )
        async with working(application, database):
            await jobs.until_ended(refused, failed, fine)
        assert await jobs.ends(refused) == [Ended(1, 1, "fail", "unrecordable")]
        # Not what it was, which was refused, but what refused it.
        reason = await jobs.value("select error from hudhud.outcome where job_id = %s", refused)
        assert reason.endswith("could not be recorded: CheckViolation.")
        assert await jobs.ends(failed) == [Ended(1, 1, "fail", "permanent")]
        assert await jobs.result(fine) == 7
    assert told.of("finish.unrecordable")
    assert not told.of("finish.refused")
