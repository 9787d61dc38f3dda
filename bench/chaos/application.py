"""The handlers of the load: those whose effect is in the database, outside, or nowhere."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import TypedDict

from bench.chaos import fact, task
from bench.chaos.board import Field
from bench.chaos.ledger_client import LedgerClient
from bench.chaos.task import Task
from hudhud import Hudhud, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from bench.chaos.board import Slot
    from hudhud import Context
    from hudhud.domain.event import Event
    from hudhud.worker.provider import Finder, Offer
    from hudhud.worker.runner import Attempt

QUEUES: Final = ("default", "mail")
WORKED_QUEUES: Final = (*QUEUES, fact.QUEUE)
# No job may end for want of attempts, however often its workers are killed: that would hide a job
# that was lost on the way.
ENOUGH: Final = 30_000
# How long a sender may still begin, and how long the ledger may still act after that; it acts at
# most 0.4 s late, and a machine that is busy is late as well.
SEND_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 1.5
_SAY_EFFECT: Final = "insert into chaos.effect (job_id, run) values (%s, %s)"
_SAY_DELIVERY: Final = "insert into chaos.delivery values (%s, %s, %s, %s)"
_RETRY: Final = RetryPolicy(base_seconds=0.05, delay_seconds_max=0.5)
_TIMEOUT_SECONDS: Final = 20.0


class _HowToKnow(TypedDict):
    reconcile: Offer | Finder[LedgerClient]


class Chores:
    """An application whose runs are shown on a board."""

    def __init__(self, slot: Slot, *, ledger_port: int, number: int) -> None:
        """Make it.

        Args:
            slot: The board.
            ledger_port: Where the ledger serves.
            number: Of this worker, for the ledger's journal.
        """
        self.app = Hudhud(middleware=[self._shown])
        self._slot = slot
        self._client = LedgerClient(
            ledger_port,
            worker=number,
            checking=partial(slot.during, Field.CHECKING),
            sending=partial(slot.during, Field.SENDING),
        )
        self.ledger = self.app.provider(
            "ledger",
            self._open_ledger,
            send_seconds=SEND_SECONDS,
            settle_seconds=SETTLE_SECONDS,
        )
        handlers: dict[str, Callable[..., Any]] = {
            task.EFFECT: self.effect,
            task.EFFECT_THREAD: self.effect_thread,
            task.PLAIN: self.plain,
            task.PLAIN_THREAD: self.plain_thread,
            task.OUTSIDE: self.outside,
            task.OUTSIDE_THREAD: self.outside_thread,
        }
        for name, function in handlers.items():
            self.app.handler(
                name,
                max_attempts=ENOUGH,
                max_crashes=ENOUGH,
                retry=_RETRY,
                timeout_seconds=_TIMEOUT_SECONDS,
            )(function)
        fact.declare(self.app)
        for name, subscriber in ((fact.NOTE, self.note), (fact.TELL, self.tell)):
            self.app.on(
                fact.TYPE,
                name=name,
                start="beginning",
                queue=fact.QUEUE,
                max_attempts=ENOUGH,
                max_crashes=ENOUGH,
                retry=_RETRY,
                timeout_seconds=_TIMEOUT_SECONDS,
            )(subscriber)

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
                for one in todo.told:
                    await fact.apublish(self.app, connection, one)
                await asyncio.sleep(todo.linger_ms / 1000)
                todo.break_after(ctx)
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
            for one in todo.told:
                fact.publish(self.app, connection, one)
            time.sleep(todo.linger_ms / 1000)
            todo.break_after(ctx)
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

    async def outside(self, ctx: Context, task: dict[str, Any]) -> dict[str, list[int]]:
        """Act in the world outside, once for each act; return the ledger's entries."""
        todo = Task(**task)
        await asyncio.sleep(todo.work_ms / 1000)
        todo.stumble(ctx)
        entries: list[int] = []
        for name in todo.act_names:
            with self._slot.during(Field.CALLING):
                async with ctx.effect(
                    name, self.ledger, **_how_to_know(todo, LedgerClient.find)
                ) as effect:
                    client = effect.provider
                    effect.result = await client.act(ctx, effect, gap_ms=todo.gap_ms)
            entries.append(effect.result)
        todo.break_after(ctx)
        return {"entries": entries}

    def outside_thread(self, ctx: Context, task: dict[str, Any]) -> dict[str, list[int]]:
        """As `outside`, in a plain function."""
        todo = Task(**task)
        time.sleep(todo.work_ms / 1000)
        todo.stumble(ctx)
        entries: list[int] = []
        for name in todo.act_names:
            with (
                self._slot.during(Field.CALLING),
                ctx.effect(
                    name, self.ledger, **_how_to_know(todo, LedgerClient.find_now)
                ) as effect,
            ):
                client = effect.provider
                effect.result = client.act_now(ctx, effect, gap_ms=todo.gap_ms)
            entries.append(effect.result)
        todo.break_after(ctx)
        return {"entries": entries}

    async def note(self, ctx: Context, event: Event) -> None:
        """Write one row for an event, in the transaction that ends this run."""
        with self._slot.during(Field.TRANSACTING):
            async with ctx.transaction() as connection:
                row = (event.id, fact.NOTE, ctx.job_id, ctx.run)
                await connection.execute(_SAY_DELIVERY, row)
        self._slot.add(Field.SETTLED, 1)

    async def tell(self, ctx: Context, event: Event) -> int:
        """Tell the ledger about an event."""
        with self._slot.during(Field.CALLING):
            async with ctx.effect("tell", self.ledger, reconcile=LedgerClient.find) as effect:
                client = effect.provider
                effect.result = await client.act(ctx, effect, gap_ms=0)
        assert event.type == fact.TYPE
        return int(effect.result)

    async def _open_ledger(self) -> AsyncGenerator[LedgerClient]:
        yield self._client

    async def _shown(self, ctx: Context, call_next: Attempt) -> object:
        with self._slot.during(Field.WORKING):
            return await call_next(ctx)


def _how_to_know(todo: Task, find: Finder[LedgerClient]) -> _HowToKnow:
    match todo.offer:
        case "dedups":
            return {"reconcile": "dedups"}
        case "none":
            return {"reconcile": "none"}
        case _:
            return {"reconcile": find}
