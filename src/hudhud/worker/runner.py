"""Runs attempts: one task per job, each within its time, stopped where it must be."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from hudhud.domain.payload import load
from hudhud.errors import HudhudError, InvalidJobError
from hudhud.telemetry import emit
from hudhud.worker import ending
from hudhud.worker.context import Context
from hudhud.worker.service import Service

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from uuid import UUID

    from hudhud.store.runs import Settlement
    from hudhud.worker.batch import Batch
    from hudhud.worker.desk import Desk
    from hudhud.worker.finisher import Finisher
    from hudhud.worker.handler import AnyHandler
    from hudhud.worker.pools import Pools
    from hudhud.worker.registry import Registry

    Attempt = Callable[[Context], Awaitable[object]]

TICK_SECONDS: Final = 0.1
# What a run may take to stop once it is told to; then it is settled without its consent.
GRACE_SECONDS: Final = 1.0
# The share of the last 0.2 s of work that may be claimed ahead of free slots: no hoarding.
AHEAD_SECONDS: Final = 0.2


class Runner(Service):
    """Starts claimed jobs as slots come free and watches over those that run.

    Attributes:
        running: Runs that have a slot, each with its task. A run whose time was up keeps its slot
            until its handler really returns.
    """

    def __init__(
        self, registry: Registry, finisher: Finisher, *, desk: Desk, pools: Pools, concurrency: int
    ) -> None:
        super().__init__("runner")
        self.running: dict[Context, asyncio.Task[None]] = {}
        self.slot_freed = asyncio.Event()
        self.attempt: Attempt = self.call_handler
        self._registry = registry
        self._finisher = finisher
        self._desk = desk
        self._pools = pools
        self._concurrency = concurrency
        self._unstarted: deque[Context] = deque()
        self._ended = 0
        self._rate = 0.0
        self._rate_since = time.monotonic()
        self._is_closed = False

    def room(self) -> int:
        """Return how many more jobs may be claimed: free slots and what 200 ms will free."""
        ahead = int(self._rate * AHEAD_SECONDS)
        return self._concurrency + ahead - len(self.running) - len(self._unstarted)

    def take(self, batch: Batch) -> None:
        """Run the jobs of a batch, in its order, as slots allow."""
        expired = set(batch.claimed.expired or ())
        desk = self._desk
        for position in batch.claimed.turns or range(1, len(batch.claimed.job_ids) + 1):
            context = Context(batch, position - 1, desk)
            if position in expired:
                self._settle(context, ending.expired(context))
            else:
                self._unstarted.append(context)
        self._start_waiting()

    async def run(self) -> None:
        """Look after time limits and measure the rate until a stop."""
        self.mark_ready()
        while await self.pause(TICK_SECONDS):
            self._measure()
            self._end_overdue(time.monotonic())

    def cancel(self, job_id: UUID, run: int) -> None:
        """Stop a run because somebody asked for it; it ends cancelled if its handler stops."""
        for context in [*self.running, *self._unstarted]:
            if context.run == run and context.job_id == job_id:
                if context in self.running:
                    self._stop(context, "cancel")
                else:
                    self._unstarted.remove(context)
                    self._settle(context, ending.cancelled(context))
                return

    def lose(self, batch: Batch) -> None:
        """Stop everything under a lease that another worker may have by now."""
        batch.is_lost = True
        for context in list(self.running):
            if context.batch is batch and not context.has_ended:
                self._stop(context, "lease_lost")

    async def close(self, deadline: float) -> None:
        """Start nothing more; give back what has not started, and end what runs by a deadline.

        Args:
            deadline: Monotonic second; what runs then is interrupted, and what ignores that for
                a second is given back all the same and reported as abandoned.
        """
        self._is_closed = True
        while self._unstarted:
            context = self._unstarted.popleft()
            self._settle(context, ending.hand_back(context, "interrupted"))
        await self._wait(self._live(), deadline - time.monotonic())
        for context in self._live():
            self._stop(context, "shutdown")
        await self._wait(self._live(), GRACE_SECONDS)
        for context in self._live():
            emit("run.abandoned", job_id=context.job_id, run=context.run)
            settlement = ending.hand_back(context, "abandoned_on_shutdown")
            await self._settle_against_its_will(context, settlement)

    def _live(self) -> list[Context]:
        return [context for context in self.running if not context.has_ended]

    async def _wait(self, contexts: Iterable[Context], seconds: float) -> None:
        tasks = {self.running[context] for context in contexts}
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)

    def _start_waiting(self) -> None:
        running, unstarted, find = self.running, self._unstarted, self._registry.find
        create_task = asyncio.get_running_loop().create_task
        while unstarted and len(running) < self._concurrency:
            context = unstarted.popleft()
            if context.batch.is_lost:
                continue
            handler = find(context.type, context.version)
            if handler is None:
                self._settle(context, ending.hand_back(context, "no_handler"))
            else:
                running[context] = create_task(self._run_one(context, handler))

    async def _run_one(self, context: Context, handler: AnyHandler) -> None:
        try:
            if handler.kind == "async":
                _begin(context, handler)
            result = await self.attempt(context)
            settlement = None if result is None else ending.of_result(context, result)
        except asyncio.CancelledError as error:
            settlement = self._of_interruption(context, handler, error)
        except MalformedError as error:
            settlement = ending.of_malformed(context, error)
        except Exception as error:  # noqa: BLE001 - every failure of a handler is recorded
            settlement = self._of_interruption(context, handler, error)
        finally:
            del self.running[context]
            self._ended += 1
        self._settle(context, settlement)
        if self._unstarted and not self._is_closed:
            self._start_waiting()
        self.slot_freed.set()

    async def call_handler(self, context: Context) -> object:
        """Check the payload and call the handler: the innermost step of an attempt."""
        claimed, index = context.batch.claimed, context.index
        handler = self._registry.find(claimed.types[index], claimed.versions[index])
        assert handler is not None, "a job without a handler is not started"
        try:
            payload = load(claimed.payloads[index])
            handler.schema.check(payload)
        except InvalidJobError as error:
            raise MalformedError(str(error)) from error
        if handler.kind == "async":
            return await handler.function(context, **payload)
        begin = partial(_begin, context, handler)
        return await self._pools.run(handler, context, payload, on_start=begin)

    def _of_interruption(
        self, context: Context, handler: AnyHandler, error: BaseException
    ) -> Settlement | None:
        match context.ending:
            case "timeout":
                return ending.of_timeout(context, handler)
            case "cancel":
                return ending.cancelled(context)
            case "shutdown":
                return ending.hand_back(context, "interrupted")
            case "lease_lost":
                return None
            case _:
                # Nobody asked it to stop: a failure like any.
                return ending.of_error(context, handler, error)

    def _settle(self, context: Context, settlement: Settlement | None) -> None:
        """Pass on what a run came to, None for a plain success, unless that is decided already."""
        if context.has_ended or context.batch.is_lost:
            return
        context.has_ended = True
        if settlement is None:
            self._finisher.succeed(context.batch, context.index + 1)
        else:
            self._finisher.settle(context.batch, settlement)

    def _stop(self, context: Context, reason: str) -> None:
        """Tell a run to stop. A thread cannot be stopped, only told."""
        if context.ending is None and not context.has_ended:
            context.ending = reason
            handler = self._registry.find(context.type, context.version)
            if handler is None or handler.kind != "thread":
                self.running[context].cancel()

    def _end_overdue(self, now: float) -> None:
        for context in list(self.running):
            if context.has_ended or not 0 < context.deadline <= now:
                continue
            if context.ending is None:
                emit("run.timed_out", job_id=context.job_id, run=context.run)
                self._stop(context, "timeout")
            elif context.ending == "timeout" and now - context.deadline > GRACE_SECONDS:
                handler = self._registry.find(context.type, context.version)
                assert handler is not None
                settlement = ending.of_timeout(context, handler)
                self._finisher.later(self._settle_against_its_will(context, settlement))

    async def _settle_against_its_will(self, context: Context, settlement: Settlement) -> None:
        """Settle a run whose handler goes on; its open transaction is ended first, at the server.

        The fence that it holds would be waited for otherwise.
        """
        if context.session_pid is not None:
            await self._finisher.end_session(context.session_pid)
        self._settle(context, settlement)
        if context in self.running:
            self.running[context].cancel()

    def _measure(self) -> None:
        now = time.monotonic()
        rate = self._ended / (now - self._rate_since)
        self._rate = rate if rate > self._rate else 0.7 * self._rate + 0.3 * rate
        self._ended = 0
        self._rate_since = now


def _begin(context: Context, handler: AnyHandler) -> None:
    """Let a run's time begin: when it starts, not while it waits for a thread or a process."""
    context.deadline = time.monotonic() + handler.timeout_seconds


class MalformedError(HudhudError):
    """The payload does not fit its handler. Correct it and resubmit the job."""
