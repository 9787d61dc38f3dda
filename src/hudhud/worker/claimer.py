"""Claims jobs of one queue, in batches, as fast as slots come free and no faster."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from hudhud.store import runs
from hudhud.telemetry import emit
from hudhud.worker.batch import Batch
from hudhud.worker.mark import Mark
from hudhud.worker.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from hudhud.worker.link import Link
    from hudhud.worker.runner import Runner

# Ranges without work that one claim also looks at, so that a quiet tenant is found in rotation.
COLD_RANGES_MAX: Final = 32
# The look from the true start costs at most about a hundredth of the time.
LOOK_SECONDS_MIN: Final = 1.0
LOOK_COST_FACTOR: Final = 100
RANGES_SECONDS: Final = 0.1
BUSY_JOBS_PER_SECOND: Final = 200
BUSY_MARK_SECONDS: Final = 0.5


@dataclass(slots=True)
class Range:
    """One scan range: a lane of a tenant in this queue."""

    lane: int
    tenant_id: str
    mark: Mark = field(default_factory=Mark)


@dataclass(frozen=True, slots=True)
class ClaimSettings:
    """How a claimer works; the same for all queues of a worker."""

    worker_id: UUID
    lease_seconds: int
    batch_jobs_max: int
    poll_seconds_min: float  # while jobs come thick
    poll_seconds_max: float


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
        on_claimed: Callable[[Batch, float], None],
    ) -> None:
        """Make a claimer.

        Args:
            queue: Name of the queue.
            link: Connection for claims, shared by the claimers of a worker.
            runner: Says how much room there is.
            settings: See there.
            hint: Set when an enqueue says that the queue has work.
            on_claimed: Gets each batch and the monotonic second from before its claim.
        """
        super().__init__(f"claimer.{queue}")
        self.queue = queue
        self._link = link
        self._runner = runner
        self._settings = settings
        self._hint = hint
        self._on_claimed = on_claimed
        self._hot: deque[Range] = deque()
        self._cold: deque[Range] = deque()
        self._to_look = 0  # ranges still to be looked at because of a hint
        self._newest_range = 0
        self._ranges_at = float("-inf")
        self._look_at = 0.0
        self._busy_until = 0.0
        self._busy_since = time.monotonic()
        self._busy_jobs = 0

    async def run(self) -> None:
        """Claim until a stop; a claim that is under way then is still handed over."""
        await self._learn_ranges()
        self.mark_ready()
        while not self.is_stopping:
            room = min(self._runner.room(), self._settings.batch_jobs_max)
            if room <= 0:
                await self._wait_for_room()
                continue
            if self._hint.is_set():
                self._hint.clear()
                self._to_look = len(self._cold)
            claimed = await self._claim(room)
            if time.monotonic() - self._ranges_at >= RANGES_SECONDS or not claimed:
                claimed += await self._learn_ranges()
            if claimed:
                await self._say_busy(claimed)
            elif self._to_look <= 0:
                await self._wait_for_work()

    async def _claim(self, room: int) -> int:
        """Claim once and hand over what was found; return how many jobs that were."""
        visited, quanta = self._plan(room)
        self._to_look -= len(visited)
        if not visited:
            return 0
        asked_at = time.monotonic()
        is_look = asked_at >= self._look_at
        claimed = await self._link.run(
            runs.claim(
                runs.ClaimRequest(
                    self._settings.worker_id,
                    self.queue,
                    [one.lane for one in visited],
                    [one.tenant_id for one in visited],
                    [0 if is_look else one.mark.seq for one in visited],
                    quanta,
                    self._settings.lease_seconds,
                )
            )
        )
        if is_look:
            took = time.monotonic() - asked_at
            self._look_at = asked_at + max(LOOK_SECONDS_MIN, LOOK_COST_FACTOR * took)
        if claimed is None:
            self._found_nothing(visited)
            return 0
        self._note(visited, quanta, claimed)
        self._on_claimed(Batch(claimed), asked_at)
        return len(claimed.job_ids)

    def _plan(self, room: int) -> tuple[list[Range], list[int]]:
        """Choose the ranges to look at and how much to take of each, together at most room.

        Ranges that had work share all but an eighth of it, in turn; the others are looked at in
        rotation. Within a claim the urgent lanes come first, and they are started first.
        """
        amount = min(len(self._cold), COLD_RANGES_MAX, max(1, room // 8))
        cold = list(islice(self._cold, 0 if self._hot and room == 1 else amount))
        self._cold.rotate(-len(cold))
        for_cold = len(cold) * max(1, room // (8 * len(cold))) if cold and self._hot else room
        hot = list(islice(self._hot, max(1, room - for_cold)))
        self._hot.rotate(-len(hot))
        quanta = {id(one): (room - (for_cold if cold else 0)) // len(hot) for one in hot}
        quanta |= {id(one): max(1, for_cold // len(cold)) for one in cold}
        visited = sorted([*hot, *cold], key=lambda one: one.lane)
        return visited, [quanta[id(one)] for one in visited]

    def _note(self, visited: list[Range], quanta: list[int], claimed: runs.Claimed) -> None:
        """Move the marks, and move ranges between hot and cold by what was found."""
        if claimed.tops is None or claimed.counts is None:
            return  # a suspect, claimed alone: no range was looked at
        found = zip(visited, quanta, claimed.tops, claimed.counts, strict=True)
        for one, quantum, top, count in found:
            one.mark.visited(top, xid=claimed.xid, xmin=claimed.xmin, was_full=count >= quantum)
            if count and one in self._cold:
                self._cold.remove(one)
                self._hot.append(one)
            elif not count and one in self._hot:
                self._hot.remove(one)
                self._cold.append(one)

    def _found_nothing(self, visited: list[Range]) -> None:
        for one in visited:
            if one in self._hot:
                self._hot.remove(one)
                self._cold.append(one)

    async def _learn_ranges(self) -> int:
        """Learn ranges that are new since the last time; return how many."""
        answer = await self._link.run(runs.ranges(self.queue, self._newest_range))
        self._ranges_at = time.monotonic()
        self._newest_range = answer.newest
        for lane, tenant_id in zip(answer.lanes, answer.tenants, strict=True):
            self._hot.append(Range(lane, tenant_id))
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

    async def _wait_for_room(self) -> None:
        self._runner.slot_freed.clear()
        async with self.until_stop():
            await self._runner.slot_freed.wait()

    async def _wait_for_work(self) -> None:
        is_busy = time.monotonic() < self._busy_until
        settings = self._settings
        seconds = settings.poll_seconds_min if is_busy else settings.poll_seconds_max
        async with self.until_stop():
            try:
                async with asyncio.timeout(seconds):
                    await self._hint.wait()
            except TimeoutError:
                return
