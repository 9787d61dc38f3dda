"""Laws of a running worker: what becomes of a job in the plain cases."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.support.application import Application, working
from tests.support.jobs import Ended, watching

if TYPE_CHECKING:
    from hudhud.worker.context import Context


async def test_a_job_runs_once_and_succeeds(database: str) -> None:
    application = Application()
    seen: list[tuple[int, int]] = []

    @application.handler("greet")
    async def greet(ctx: Context, *, name: str) -> None:
        assert name == "Ada"
        seen.append((ctx.run, ctx.attempt))

    async with watching(database) as jobs, working(application, database):
        job = await jobs.add("greet", {"name": "Ada"})
        assert await jobs.until_ended(job) == ["succeeded"]
        assert await jobs.ends(job) == [Ended(1, 1, "succeed", None)]
    assert seen == [(1, 1)]
