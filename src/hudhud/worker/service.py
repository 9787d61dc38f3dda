"""One lifecycle for every loop of a worker: start, ready, stop.

A loop says what it does in `run`; that it is restarted after a crash, reported, waited for
and stopped is written here once.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hudhud.telemetry import emit
from hudhud.worker.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

# A run that lived this long was healthy: its next crash begins with the shortest delay again.
_HEALTHY_SECONDS = 30.0
# What a cancelled run may take for its own cleaning up before it is left behind.
_CLEANUP_SECONDS = 2.0


class Service(ABC):
    """A loop that is started, becomes ready, and is stopped; a crash restarts it.

    Belongs to one event loop. A service is started once; after `stop` it stays stopped.

    Attributes:
        name: Used in telemetry: `claimer.bank`, `waker`.
        crashes: How often `run` ended with an exception so far.
    """

    def __init__(self, name: str, *, backoff: Backoff | None = None) -> None:
        self.name = name
        self.crashes = 0
        self._backoff = backoff or Backoff()
        self._task: asyncio.Task[None] | None = None
        self._starter: asyncio.Task[object] | None = None
        self._ready = asyncio.Event()
        self._stopping = asyncio.Event()
        self._scopes: set[asyncio.Timeout] = set()

    @abstractmethod
    async def run(self) -> None:
        """Do the work until `is_stopping`; call `mark_ready` once it can be relied upon.

        An exception is reported and `run` is called again after a growing delay, so every
        resource is opened and closed inside. A return ends the service.
        """

    @property
    def is_ready(self) -> bool:
        """Whether `run` can be relied upon now; false again after a crash."""
        return self._ready.is_set()

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was asked for."""
        return self._stopping.is_set()

    @property
    def is_running(self) -> bool:
        """Whether the service was started and has not ended."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begin `run` in a task of its own; a second call changes nothing."""
        if self._task is None:
            self._starter = asyncio.current_task()
            self._task = asyncio.get_running_loop().create_task(self._supervise(), name=self.name)

    async def ready(self) -> bool:
        """Wait until the loop is ready.

        Crashes on the way there are waited through; bound the wait with `asyncio.timeout`.

        Returns:
            False if the service ended before it was ready.
        """
        task = self._task
        assert task is not None, f"{self.name} was not started"
        waiter = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()
        return self.is_ready

    def mark_ready(self) -> None:
        """Say from inside `run` that this loop now does its work."""
        self._ready.set()

    async def stop(self, *, within_seconds: float | None = None) -> None:
        """Ask the loop to end, and wait until it has.

        May be called again and from several places: all of them wait for the same end, and the
        shortest deadline holds, so a second signal can hurry the first and never slow it.

        Args:
            within_seconds: After that `run` is cancelled; None waits as long as it takes, 0
                cancels at once. A run that ignores its cancellation is left behind and reported.
        """
        if not self._stopping.is_set():
            self._stopping.set()
            now = asyncio.get_running_loop().time()
            for scope in self._scopes:
                scope.reschedule(now)
        task = self._task
        if task is None or task is asyncio.current_task():
            return
        await asyncio.wait({task}, timeout=within_seconds)
        if not task.done():
            emit("service.cancelled", service=self.name, after_seconds=within_seconds)
            task.cancel()
            await asyncio.wait({task}, timeout=_CLEANUP_SECONDS)
        if not task.done():
            emit("service.abandoned", service=self.name)
        elif not task.cancelled():
            task.result()

    async def pause(self, seconds: float) -> bool:
        """Sleep, but no longer than until a stop is asked for.

        Returns:
            Whether to go on: false once the service is stopping.
        """
        async with self.until_stop():
            await asyncio.sleep(seconds)
        return not self.is_stopping

    @asynccontextmanager
    async def until_stop(self) -> AsyncGenerator[None]:
        """Leave the block, without an error, at the await it stands on when a stop is asked for."""
        scope = asyncio.timeout(0 if self.is_stopping else None)
        try:
            async with scope:
                self._scopes.add(scope)
                yield
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            self._scopes.discard(scope)

    async def _supervise(self) -> None:
        try:
            while not self.is_stopping:
                started = time.monotonic()
                error = await self._run_once()
                if error is None:
                    return
                self._ready.clear()
                if time.monotonic() - started >= _HEALTHY_SECONDS:
                    self._backoff.reset()
                await self._recover(error)
        finally:
            self._ready.clear()

    async def _run_once(self) -> BaseException | None:
        try:
            await self.run()
        except asyncio.CancelledError as error:
            # Only a stop cancels this task, and an event loop that ends. Otherwise it is a crash
            # like any: a worker that goes on without one of its loops would hold jobs for ever.
            task = asyncio.current_task()
            if task is None or (task.cancelling() and self._is_to_end()):
                raise
            while task.cancelling():
                task.uncancel()
            return error
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported and run again
            return error
        return None

    def _is_to_end(self) -> bool:
        """Whether a stop was asked for, or whoever started this is over itself."""
        starter = self._starter
        return self.is_stopping or starter is None or starter.done() or starter.cancelling() > 0

    async def _recover(self, error: BaseException) -> None:
        self.crashes += 1
        delay_seconds = self._backoff.next_delay_seconds()
        emit("service.crashed", service=self.name, error=error, restart_seconds=delay_seconds)
        await self.pause(delay_seconds)
