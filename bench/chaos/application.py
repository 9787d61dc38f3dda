"""The handlers of the load: two whose effect is in the database, two that just work."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from bench.chaos import task
from bench.chaos.board import Field
from bench.chaos.task import Task
from hudhud import Hudhud, RetryPolicy

if TYPE_CHECKING:
    from bench.chaos.board import Slot
    from hudhud import Context
    from hudhud.worker.runner import Attempt

QUEUES: Final = ("default", "mail")
# No job may end for want of attempts, however often its workers are killed: that would hide a job
# that was lost on the way.
ENOUGH: Final = 30_000
_SAY_EFFECT: Final = "insert into chaos.effect (job_id, run) values (%s, %s)"
_RETRY: Final = RetryPolicy(base_seconds=0.05, delay_seconds_max=0.5)


class Chores:
    """An application whose runs are shown on a board."""

    def __init__(self, slot: Slot) -> None:
        """Make it."""
        self.app = Hudhud(middleware=[self._shown])
        self._slot = slot
        for name, function in (
            (task.EFFECT, self.effect),
            (task.EFFECT_THREAD, self.effect_thread),
            (task.PLAIN, self.plain),
            (task.PLAIN_THREAD, self.plain_thread),
        ):
            self.app.handler(name, max_attempts=ENOUGH, max_crashes=ENOUGH, retry=_RETRY)(function)

    async def effect(self, ctx: Context, task: dict[str, Any]) -> None:
        """Write one row, and the jobs that follow, in the transaction that ends this run."""
        todo = Task(**task)
        await asyncio.sleep(todo.work_ms / 1000)
        todo.stumble(ctx)
        with self._slot.during(Field.TRANSACTING):
            async with ctx.transaction() as connection:
                await connection.execute(_SAY_EFFECT, (ctx.job_id, ctx.run))
                for place in range(1, todo.children + 1):
                    await self.app.aclient.enqueue(connection, todo.child_job(place))
                await asyncio.sleep(todo.linger_ms / 1000)
                todo.break_inside(ctx)
        self._slot.add(Field.SETTLED, 1)

    def effect_thread(self, ctx: Context, task: dict[str, Any]) -> None:
        """As `effect`, in a plain function."""
        todo = Task(**task)
        time.sleep(todo.work_ms / 1000)
        todo.stumble(ctx)
        with self._slot.during(Field.TRANSACTING), ctx.transaction() as connection:
            connection.execute(_SAY_EFFECT, (ctx.job_id, ctx.run))
            for place in range(1, todo.children + 1):
                self.app.client.enqueue(connection, todo.child_job(place))
            time.sleep(todo.linger_ms / 1000)
            todo.break_inside(ctx)
        self._slot.add(Field.SETTLED, 1)

    async def plain(self, ctx: Context, task: dict[str, Any]) -> dict[str, int]:
        """Work; the finisher records the end."""
        todo = Task(**task)
        await asyncio.sleep(todo.work_ms / 1000)
        todo.stumble(ctx)
        return {"number": todo.number}

    def plain_thread(self, ctx: Context, task: dict[str, Any]) -> None:
        """As `plain`, in a plain function, and without a result."""
        todo = Task(**task)
        time.sleep(todo.work_ms / 1000)
        todo.stumble(ctx)

    async def _shown(self, ctx: Context, call_next: Attempt) -> object:
        with self._slot.during(Field.WORKING):
            return await call_next(ctx)
