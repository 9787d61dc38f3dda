"""Runs attempts: one task per job, each within its time, stopped where it must be."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import psycopg
from typing_extensions import override

from hudhud.domain import cause
from hudhud.domain.payload import load
from hudhud.errors import HudhudError, InvalidJobError
from hudhud.telemetry import emit
from hudhud.worker import ending
from hudhud.worker.context import Context
from hudhud.worker.processes import UnsentResultError
from hudhud.worker.run import Run
from hudhud.worker.service import Service
from hudhud.worker.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from uuid import UUID

    from hudhud.store.runs import Settlement
    from hudhud.worker.batch import Batch
    from hudhud.worker.desk import Desk
    from hudhud.worker.finisher import Finisher
    from hudhud.worker.handler import Kind
    from hudhud.worker.pools import Pools
    from hudhud.worker.registry import Registry

    Attempt = Callable[[Context], Awaitable[object]]

TICK_SECONDS: Final = 0.1
# What a run may take to stop once it is told to; then it is settled without its consent.
GRACE_SECONDS: Final = 1.0
SUSPECT_DELAY_SECONDS: Final = 1.0


class Runner(Service):
    """Starts claimed jobs as slots of their kind come free and watches over those that run.

    Attributes:
        running: Runs that have a slot, each with its task. An async run whose time was up keeps
            its slot until its handler really returns.
        room_made: Set when a run has ended and more may be claimed.
        claiming: Held from asking for room until the jobs are here.
    """

    def __init__(
        self,
        registry: Registry,
        finisher: Finisher,
        *,
        desk: Desk,
        pools: Pools,
        slots: Mapping[Kind, int],
    ) -> None:
        """Make a runner.

        Args:
            registry: The handlers.
            finisher: Gets what runs come to.
            desk: What contexts share.
            pools: Where plain functions and process handlers run.
            slots: Runs at once, by kind of handler.
        """
        super().__init__("runner")
        self.running: dict[Context, asyncio.Task[None]] = {}
        self.room_made = asyncio.Event()
        self.claiming = asyncio.Lock()
        self.attempt: Attempt = self.call_handler
        self._registry = registry
        self._finisher = finisher
        self._desk = desk
        self._pools = pools
        self._slots: dict[Kind, Slots] = {kind: Slots(limit) for kind, limit in slots.items()}
        self._kinds: set[Kind] = {handler.kind for handler in registry} or {"async"}
        self._threads = slots["thread"]
        self._measured_at = time.monotonic()
        self._is_closed = False
        self._hurried = asyncio.Event()

    def rooms(self) -> dict[Kind, int]:
        """Return how many more jobs may be claimed, of each kind that there are handlers of."""
        return {kind: self._slots[kind].room() for kind in self._kinds}

    def take(self, batch: Batch, rooms: Mapping[Kind, int] | None = None) -> dict[str, set[Kind]]:
        """Run the jobs of a batch, in their turn, as slots allow.

        What there was no room for, jobs that need a thread for one, is handed back at once: other
        workers may have room for it.

        Args:
            batch: What was claimed.
            rooms: The room that there was when it was asked for; None if nobody cares.

        Returns:
            The kinds of its jobs by tenant; empty when all are async.
        """
        claimed = batch.claimed
        expired = set(claimed.expired or ())
        desk, find = self._desk, self._registry.find
        waited = {kind: len(slots.waiting) for kind, slots in self._slots.items()}
        are_async = True
        for position in claimed.turns or range(1, len(claimed.job_ids) + 1):
            index = position - 1
            handler = find(claimed.types[index], claimed.versions[index])
            if handler is None or position in expired:
                self._end_unstarted(Run(batch, index), is_expired=position in expired)
                continue
            are_async = are_async and handler.kind == "async"
            self._slots[handler.kind].waiting.append(Context(batch, index, desk, handler=handler))
        for kind, slots in self._slots.items():
            if rooms is not None:
                room = max(rooms.get(kind, 0), 0)
                self._hand_back(slots, len(slots.waiting) - waited[kind] - room)
            self._start_waiting(slots)
        return {} if are_async else self._kinds_of(batch)

    @override
    async def run(self) -> None:
        """Look after time limits and measure the rate until a stop."""
        self.mark_ready()
        while await self.pause(TICK_SECONDS):
            self._measure()
            self._end_overdue(time.monotonic())

    def cancel(self, job_id: UUID, run: int) -> None:
        """Stop a run because somebody asked for it; it ends cancelled if its handler stops."""
        for context in self.running:
            if context.run == run and context.job_id == job_id:
                if context.ending is None and not context.has_ended:
                    self._interrupt(context, "cancel")
                return
        for slots in self._slots.values():
            for context in slots.waiting:
                if context.run == run and context.job_id == job_id:
                    slots.waiting.remove(context)
                    self._settle(context, ending.cancelled(context))
                    return

    def interrupt(self, run: Run) -> None:
        """Interrupt a run's task that was spared while it was in an effect; threads are told."""
        if isinstance(run, Context) and run in self.running and run.handler.kind != "thread":
            asyncio.get_running_loop().call_soon(self.running[run].cancel)

    def committed(self, run: Run) -> None:
        """Take note of a run that committed its own success, unless it was given up meanwhile."""
        if not run.has_ended:
            run.has_ended = True
            self._finisher.settled(run.batch)

    def lose(self, batch: Batch) -> None:
        """Stop everything under a lease that another worker may have by now."""
        batch.is_lost = True
        for context in self.running:
            if context.batch is batch and context.ending is None and not context.has_ended:
                self._interrupt(context, "lease_lost")

    async def close(self, deadline: float) -> None:
        """Start nothing more; give back what has not started, and end what runs by a deadline.

        Args:
            deadline: Monotonic second; what runs then is interrupted, and what ignores that for
                a second is given back all the same and reported as abandoned.
        """
        self._is_closed = True
        for slots in self._slots.values():
            while slots.waiting:
                context = slots.waiting.popleft()
                self._settle(context, ending.hand_back(context, "interrupted"))
        await self._wait_unhurried(self._live(), deadline - time.monotonic())
        for context in self._live():
            self._interrupt(context, "shutdown")
        await self._wait(self._live(), GRACE_SECONDS)
        for context in self._live():
            emit("run.abandoned", job_id=context.job_id, run=context.run)
            settlement = ending.hand_back(context, "abandoned_on_shutdown")
            await self._settle_against_its_will(context, settlement)

    def hurry(self) -> None:
        """Let `close`, now or later, wait for no handler before it interrupts."""
        self._hurried.set()

    def _live(self) -> list[Context]:
        """Return the runs worth waiting for: not those that were given up or lost."""
        return [
            context
            for context in self.running
            if context.ending != "overdue" and not context.batch.is_lost
        ]

    async def _wait(self, contexts: Iterable[Context], seconds: float) -> None:
        tasks = {self.running[context] for context in contexts}
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)

    async def _wait_unhurried(self, contexts: Iterable[Context], seconds: float) -> None:
        waits = [
            asyncio.ensure_future(self._wait(contexts, seconds)),
            asyncio.ensure_future(self._hurried.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    def _start_waiting(self, slots: Slots) -> None:
        waiting, running = slots.waiting, self.running
        create_task = asyncio.get_running_loop().create_task
        while waiting and slots.taken < slots.limit:
            context = waiting.popleft()
            if not context.batch.is_lost:
                slots.taken += 1
                running[context] = create_task(self._run_one(context, slots))

    def _kinds_of(self, batch: Batch) -> dict[str, set[Kind]]:
        claimed = batch.claimed
        kinds: dict[str, set[Kind]] = {}
        for tenant_id, name, version in zip(
            claimed.tenant_ids, claimed.types, claimed.versions, strict=True
        ):
            if handler := self._registry.find(name, version):
                kinds.setdefault(tenant_id, set()).add(handler.kind)
        return kinds

    def _end_unstarted(self, run: Run, *, is_expired: bool) -> None:
        self._settle(
            run, ending.expired(run) if is_expired else ending.hand_back(run, "no_handler")
        )

    def _hand_back(self, slots: Slots, surplus: int) -> None:
        for _ in range(surplus):
            context = slots.waiting.pop()
            # A suspect comes first in every claim; ours would take it again and again.
            delay_seconds = SUSPECT_DELAY_SECONDS if context.batch.is_suspect else 0.0
            settlement = ending.hand_back(context, "no_slot", delay_seconds=delay_seconds)
            self._settle(context, settlement)

    async def _run_one(self, context: Context, slots: Slots) -> None:
        context.deadline = time.monotonic() + context.handler.timeout_seconds
        cause.begin(context)
        try:
            result = await self.attempt(context)
            settlement = None if result is None else ending.of_result(context, result)
        except MalformedError as error:
            settlement = ending.of_malformed(context, error)
        except UnsentResultError as error:
            settlement = ending.of_refused_result(context, error)
        except BaseException as error:
            if isinstance(error, GeneratorExit) and not self._is_running_now(context):
                raise  # the coroutine is being thrown away: nobody is left to be told
            settlement = self._of_interruption(context, error)
        finally:
            del self.running[context]
            slots.taken -= 1
            slots.ended += 1
        self._settle(context, settlement)
        if context.ending is not None:
            self._count_threads()
        if slots.waiting and not self._is_closed:
            self._start_waiting(slots)
        if slots.room() > 0:
            self.room_made.set()

    def _is_running_now(self, context: Context) -> bool:
        """Whether it is this run's own task that runs, and not whoever throws it away."""
        try:
            return asyncio.current_task() is self.running.get(context)
        except RuntimeError:
            return False

    async def call_handler(self, context: Context) -> object:
        """Check the payload and call the handler: the innermost step of an attempt."""
        handler = context.handler
        try:
            payload = load(context.batch.claimed.payloads[context.index])
            handler.schema.check(payload)
        except InvalidJobError as error:
            raise MalformedError(str(error)) from error
        if handler.kind == "async":
            return await handler.function(context, **payload)
        return await self._pools.run(handler, context, payload)

    def _of_interruption(self, context: Context, error: BaseException) -> Settlement | None:
        match context.ending:
            case "timeout" | "overdue":
                return ending.of_timeout(context, context.handler)
            case "cancel":
                return ending.cancelled(context)
            case "shutdown":
                return ending.hand_back(context, "interrupted")
            case "lease_lost":
                return None
            case _:
                # Nobody asked it to stop: a failure like any.
                return ending.of_error(context, context.handler, error)

    def _settle(self, run: Run, settlement: Settlement | None) -> None:
        """Pass on what a run came to, None for a plain success, unless that is decided already."""
        if run.has_ended or run.batch.is_lost:
            return
        run.has_ended = True
        if run.effects and isinstance(run, Context):
            settlement = ending.of_open_effects(run, run.handler, settlement)
        if settlement is None:
            self._finisher.succeed(run.batch, run.index + 1)
        else:
            self._finisher.settle(run.batch, settlement)

    def _interrupt(self, context: Context, reason: str) -> None:
        """Tell a run to stop. A thread cannot be stopped, only told; an effect is not cut short."""
        context.ending = reason
        is_told_later = reason == "cancel" and context.is_in_effect
        if context.handler.kind != "thread" and not is_told_later:
            # In the loop's next turn: a task that is cancelled before it began never runs at all.
            asyncio.get_running_loop().call_soon(self.running[context].cancel)

    def _end_overdue(self, now: float) -> None:
        for context in list(self.running):
            if not 0 < context.deadline <= now:
                continue
            if context.ending in (None, "cancel"):
                emit("run.timed_out", job_id=context.job_id, run=context.run)
                self._interrupt(context, "timeout")
            elif context.ending == "timeout" and now - context.deadline > GRACE_SECONDS:
                context.ending = "overdue"
                settlement = ending.of_timeout(context, context.handler)
                self._finisher.later(self._settle_against_its_will(context, settlement))

    async def _settle_against_its_will(self, context: Context, settlement: Settlement) -> None:
        """Settle a run whose handler goes on; its open transaction is ended first, at the server.

        The fence that it holds would be waited for otherwise.
        """
        if context.in_transaction:
            # While the database is away nothing can be settled either: the finisher tries again.
            with suppress(psycopg.OperationalError):
                await self._finisher.end_transaction(context.batch, context.index + 1)
        self._settle(context, settlement)
        if context in self.running:
            self.running[context].cancel()

    def _measure(self) -> None:
        now = time.monotonic()
        for slots in self._slots.values():
            slots.measure(now - self._measured_at)
        self._measured_at = now
        self._count_threads()

    def _count_threads(self) -> None:
        """Leave out the threads of runs that were given up and whose functions go on."""
        self._slots["thread"].limit = self._threads - self._pools.lost_threads


class MalformedError(HudhudError):
    """The payload does not fit its handler. Correct it and resubmit the job."""
