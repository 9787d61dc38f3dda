"""Laws of the one lifecycle that every loop of a worker has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from typing_extensions import override

from hudhud.worker.backoff import Backoff
from hudhud.worker.service import Service
from tests.support.wait import auntil

if TYPE_CHECKING:
    from tests.support.told import Told


class Loop(Service):
    """A loop that waits for a stop, after failing as often as it was told to."""

    def __init__(self, *, failures: int = 0, retry_seconds: float = 0.001) -> None:
        super().__init__("loop", backoff=Backoff(retry_seconds, retry_seconds))
        self.failures = failures
        self.runs = 0
        self.ended = False

    @override
    async def run(self) -> None:
        self.runs += 1
        if self.runs <= self.failures:
            message = "told to fail"
            raise RuntimeError(message)
        self.mark_ready()
        async with self.until_stop():
            await asyncio.Event().wait()
        self.ended = True


class Stubborn(Loop):
    """A loop that ignores its stop until it is cancelled, and optionally that too."""

    def __init__(self, *, ignores_cancel: bool = False) -> None:
        super().__init__()
        self.ignores_cancel = ignores_cancel
        self.release = asyncio.Event()

    @override
    async def run(self) -> None:
        self.mark_ready()
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                if not self.ignores_cancel:
                    raise


async def test_a_started_service_becomes_ready_and_a_stop_waits_for_its_end() -> None:
    loop = Loop()
    loop.start()
    assert await loop.ready()
    await loop.stop()
    assert loop.ended
    assert not loop.is_running
    assert not loop.is_ready


async def test_a_second_start_changes_nothing() -> None:
    loop = Loop()
    loop.start()
    loop.start()
    await loop.ready()
    await loop.stop()
    assert loop.runs == 1


async def test_stops_from_several_places_wait_for_the_same_end() -> None:
    loop = Loop()
    loop.start()
    await loop.ready()
    await asyncio.gather(loop.stop(), loop.stop(), loop.stop())
    await loop.stop()
    assert loop.ended


async def test_a_second_stop_may_hurry_the_first(told: Told) -> None:
    loop = Stubborn()
    loop.start()
    await loop.ready()
    first = asyncio.ensure_future(loop.stop())
    await auntil(lambda: loop.is_stopping)
    await loop.stop(within_seconds=0)
    await first
    assert told.names == ["service.cancelled"]
    assert not loop.is_running


async def test_a_run_that_ignores_its_cancellation_is_left_and_reported(told: Told) -> None:
    loop = Stubborn(ignores_cancel=True)
    loop.start()
    await loop.ready()
    await loop.stop(within_seconds=0)
    assert told.names == ["service.cancelled", "service.abandoned"]
    loop.release.set()
    await auntil(lambda: not loop.is_running)


async def test_a_crashed_run_is_reported_and_run_again_until_it_is_ready(told: Told) -> None:
    loop = Loop(failures=3)
    loop.start()
    assert await loop.ready()
    await loop.stop()
    assert loop.crashes == 3
    assert told.names == ["service.crashed"] * 3
    assert {fields["service"] for _, fields in told.events} == {"loop"}
    assert all(isinstance(fields["error"], RuntimeError) for _, fields in told.events)


async def test_a_cancellation_that_nobody_asked_for_is_a_crash_like_any(told: Told) -> None:
    """FAILURES A07: `except Exception` does not catch CancelledError."""

    class Cancelled(Loop):
        @override
        async def run(self) -> None:
            if self.crashes == 0:
                raise asyncio.CancelledError
            await super().run()

    loop = Cancelled()
    loop.start()
    assert await loop.ready()
    await loop.stop()
    assert told.names == ["service.crashed"]


async def test_a_task_that_is_cancelled_without_a_stop_runs_again(told: Told) -> None:
    loop = Loop()
    loop.start()
    assert await loop.ready()
    for task in asyncio.all_tasks():
        if task.get_name() == "loop":
            task.cancel()
    await auntil(lambda: loop.runs > 1)
    assert await loop.ready()
    await loop.stop()
    assert told.names == ["service.crashed"]


def test_an_event_loop_that_ends_ends_its_services() -> None:
    loop = Loop()

    async def leave_it() -> None:
        loop.start()
        await loop.ready()

    asyncio.run(leave_it())
    assert loop.runs == 1


async def test_a_stop_ends_the_wait_after_a_crash_at_once() -> None:
    loop = Loop(failures=1, retry_seconds=3600)
    loop.start()
    await auntil(lambda: loop.crashes == 1)
    await loop.stop()
    assert loop.runs == 1


async def test_a_service_stopped_before_it_was_ready_says_so() -> None:
    loop = Loop(failures=1_000_000)
    loop.start()
    waiting = asyncio.ensure_future(loop.ready())
    await auntil(lambda: loop.crashes > 1)
    await loop.stop()
    assert not await waiting


async def test_a_pause_ends_when_a_stop_is_asked_for() -> None:
    class Pausing(Loop):
        went_on = True

        @override
        async def run(self) -> None:
            self.mark_ready()
            self.went_on = await self.pause(3600)

    loop = Pausing()
    loop.start()
    await loop.ready()
    await loop.stop()
    assert not loop.went_on


async def test_a_time_limit_inside_until_stop_is_still_an_error() -> None:
    class Limited(Loop):
        @override
        async def run(self) -> None:
            async with self.until_stop():
                raise TimeoutError

    loop = Limited()
    loop.start()
    await auntil(lambda: loop.crashes > 0)
    await loop.stop()


async def test_a_stop_that_was_never_started_returns() -> None:
    await Loop().stop()


def test_delays_grow_to_the_cap_and_never_fall_under_half_their_bound() -> None:
    """FAILURES A35: a fleet spreads out, and no process draws a row of near-zero delays."""
    backoff = Backoff(base_seconds=0.1, max_seconds=5.0)
    delays = [backoff.next_delay_seconds() for _ in range(2000)]
    bounds = [min(0.1 * 2.0 ** min(n, 60), 5.0) for n in range(2000)]
    assert all(bound / 2 <= delay <= bound for delay, bound in zip(delays, bounds, strict=True))
    backoff.reset()
    assert backoff.next_delay_seconds() <= 0.1
