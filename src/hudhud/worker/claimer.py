"""Claims jobs of one queue, in batches, as fast as slots come free and no faster."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from hudhud.failpoint import reach
from hudhud.store import runs
from hudhud.telemetry import emit
from hudhud.worker.batch import Batch
from hudhud.worker.ranges import Ranges
from hudhud.worker.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from hudhud.worker.handler import Kind
    from hudhud.worker.link import Link
    from hudhud.worker.ranges import Range
    from hudhud.worker.runner import Runner

    Planned = Sequence[tuple[Range, int]]

# The look from the true start costs at most about a hundredth of the time.
LOOK_SECONDS_MIN: Final = 1.0
LOOK_COST_FACTOR: Final = 100
RANGES_SECONDS: Final = 0.1
BUSY_JOBS_PER_SECOND: Final = 200
BUSY_MARK_SECONDS: Final = 0.5
# After so long without suspects, those that come are of another crash.
TRIAL_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class ClaimSettings:
    """How a claimer works; the same for all queues of a worker."""

    worker_id: UUID
    lease_seconds: int
    batch_jobs_max: int
    poll_seconds_min: float  # while jobs come thick
    poll_seconds_max: float


class Trial:
    """How many suspects to try at once: one, then twice as many as this process lived through.

    Whoever dies of one begins again with one, in the process that follows.
    """

    def __init__(self) -> None:
        self._amount = 1
        self._tried_at = float("-inf")

    def amount(self, rooms: Mapping[Kind, int], now: float) -> int:
        """Return how many to ask for at a monotonic second.

        Every kind must have room for them: of which they are is not known before.
        """
        if now - self._tried_at > TRIAL_SECONDS:
            self._amount = 1
        return max(1, min(self._amount, *rooms.values()))

    def tried(self, amount: int, now: float) -> None:
        """Take note of a claim that got some: it came because those before it killed nobody."""
        self._amount = 2 * amount
        self._tried_at = now


class Claimer(Service):
    """The loop of one queue: ask for room, claim, hand over, wait for a hint or a poll."""

    def __init__(
        self,
        queue: str,
        link: Link,
        runner: Runner,
        *,
        settings: ClaimSettings,
        hint: asyncio.Event,
        on_claimed: Callable[[Batch, float, Mapping[Kind, int]], Mapping[str, set[Kind]]],
    ) -> None:
        """Make a claimer.

        Args:
            queue: Name of the queue.
            link: Connection for claims, shared by the claimers of a worker.
            runner: Says how much room there is.
            settings: See there.
            hint: Set when an enqueue says that the queue has work.
            on_claimed: Gets each batch, the monotonic second from before its claim, and the room
                that was asked for; returns the kinds of its jobs, as `Runner.take` does.
        """
        super().__init__(f"claimer.{queue}")
        self.queue = queue
        self._link = link
        self._runner = runner
        self._settings = settings
        self._hint = hint
        self._on_claimed = on_claimed
        self._ranges = Ranges()
        self._trial = Trial()
        self._to_look = 0  # ranges still to be looked at because of a hint
        self._newest_range = 0
        self._ranges_at = float("-inf")
        self._look_at = 0.0
        self._busy_until = 0.0
        self._busy_since = time.monotonic()
        self._busy_jobs = 0

    @override
    async def run(self) -> None:
        """Claim until a stop; a claim that is under way then is still handed over."""
        await self._learn_ranges()
        self.mark_ready()
        while not self.is_stopping:
            if self._hint.is_set():
                self._hint.clear()
                self._to_look = self._ranges.cold
            # One claim of a worker at a time: what it takes is gone from the room of the next.
            async with self._runner.claiming:
                self._runner.room_made.clear()
                rooms = self._runner.rooms()
                planned = self._ranges.plan(rooms, self._settings.batch_jobs_max)
                claimed = await self._claim(planned, rooms) if planned else 0
            # Without room nothing new can be taken: then there is no hurry to learn of new ranges.
            is_full = bool(self._ranges) and not planned
            is_due = time.monotonic() - self._ranges_at >= RANGES_SECONDS
            if is_due or not (claimed or is_full):
                claimed += await self._learn_ranges()
            if claimed:
                await self._say_busy(claimed)
            elif self._ranges and not planned:
                await self._wait(self._runner.room_made, busy_seconds=RANGES_SECONDS)
            elif self._to_look <= 0:
                await self._wait(self._hint, busy_seconds=self._settings.poll_seconds_min)

    async def _claim(self, planned: Planned, rooms: Mapping[Kind, int]) -> int:
        """Claim once and hand over what was found; return how many jobs that were."""
        asked_at = time.monotonic()
        is_look = asked_at >= self._look_at
        reach("claim.asked")
        claimed = await self._link.run(
            runs.claim(
                runs.ClaimRequest(
                    self._settings.worker_id,
                    self.queue,
                    [one.lane for one, _ in planned],
                    [one.tenant_id for one, _ in planned],
                    [0 if is_look else one.mark.seq for one, _ in planned],
                    [quantum for _, quantum in planned],
                    self._settings.lease_seconds,
                    self._trial.amount(rooms, asked_at),
                )
            )
        )
        if claimed is not None:
            reach("claim.taken")
        if claimed is not None and claimed.are_suspects:  # no range was looked at
            self._trial.tried(len(claimed.job_ids), asked_at)
            self._on_claimed(Batch(claimed), asked_at, rooms)
            return len(claimed.job_ids)
        self._to_look -= len(planned)
        if is_look:
            took = time.monotonic() - asked_at
            self._look_at = asked_at + max(LOOK_SECONDS_MIN, LOOK_COST_FACTOR * took)
        if claimed is None:
            self._ranges.found_nothing(planned)
            return 0
        self._ranges.note(planned, claimed)
        kinds = self._on_claimed(Batch(claimed), asked_at, rooms)
        self._ranges.note_kinds(planned, claimed.counts or (), kinds=kinds, rooms=rooms)
        return len(claimed.job_ids)

    async def _learn_ranges(self) -> int:
        """Learn ranges that are new since the last time; return how many."""
        answer = await self._link.run(runs.ranges(self.queue, self._newest_range))
        self._ranges_at = time.monotonic()
        self._newest_range = answer.newest
        for lane, tenant_id in zip(answer.lanes, answer.tenants, strict=True):
            self._ranges.add(lane, tenant_id)
        return len(answer.lanes)

    async def _say_busy(self, claimed: int) -> None:
        """Spare enqueues their hints while this queue is polled hard anyway."""
        self._busy_jobs += claimed
        now = time.monotonic()
        passed = now - self._busy_since
        if passed < BUSY_MARK_SECONDS:
            return
        if self._busy_jobs > BUSY_JOBS_PER_SECOND * passed:
            await self._link.run(runs.mark_busy(self.queue, 1.0))
            self._busy_until = now + 1.0
            emit("claimer.busy", queue=self.queue, jobs_per_second=self._busy_jobs / passed)
        self._busy_jobs = 0
        self._busy_since = now

    async def _wait(self, event: asyncio.Event, *, busy_seconds: float) -> None:
        """Wait for an event, but no longer than a poll."""
        is_busy = time.monotonic() < self._busy_until
        seconds = busy_seconds if is_busy else self._settings.poll_seconds_max
        async with self.until_stop():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()
