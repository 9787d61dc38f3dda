"""Threads for plain functions: a bounded number, each owned by one run until it returns.

A thread cannot be stopped. A run that is given up at its time limit keeps its thread, and so its
slot, until the function returns by itself; when a quarter of the slots are lost that way, the
process is worn and should be replaced. The threads are daemons: none keeps the process from
ending, as those of `concurrent.futures` do.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVar

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

WORN_SHARE: Final = 4  # one in four


class _Slot(threading.Thread):
    """One thread that runs one function after another.

    Attributes:
        is_given_up: Whether nobody waits any more for the function that runs in it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.is_given_up = False
        self.tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    @override
    def run(self) -> None:
        while (task := self.tasks.get()) is not None:
            task()
            del task  # an idle thread keeps nothing of its last run alive


class ThreadPool:
    """Runs functions in threads; belongs to one event loop.

    Attributes:
        lost: Slots whose run was given up and whose function has not returned yet.
    """

    def __init__(
        self, slots: int, *, name: str = "hudhud-thread", on_worn: Callable[[], None] | None = None
    ) -> None:
        """Make a pool; threads start when they are first needed.

        Args:
            slots: Functions at once, at least 1.
            name: Of the threads, for debuggers.
            on_worn: Called once, on the loop, when a quarter of the slots are lost.
        """
        self.lost = 0
        self._slots = slots
        self._name = name
        self._on_worn = on_worn
        self._free = asyncio.Semaphore(slots)
        self._idle: list[_Slot] = []

    async def run(
        self, function: Callable[[], T], *, on_start: Callable[[], None] | None = None
    ) -> T:
        """Run a function in a thread, in a copy of this context, and return what it returns.

        A cancellation gives the run up at once; the slot stays taken until the function returns.

        Args:
            function: Called without arguments.
            on_start: Called on the loop when a slot is there.

        Raises:
            OSError: The system gives no thread or pipe now; also RuntimeError, for a thread.
        """
        await self._free.acquire()
        try:
            if on_start is not None:
                on_start()
            slot = self._take_slot()
        except BaseException:
            self._free.release()
            raise
        ended: Future[T] = Future()
        ended.set_running_or_notify_cancel()
        loop = asyncio.get_running_loop()
        ended.add_done_callback(lambda _: _call(loop, partial(self._release, slot)))
        context = contextvars.copy_context()
        slot.tasks.put(partial(_execute, partial(context.run, function), ended))
        try:
            return await asyncio.wrap_future(ended)
        except asyncio.CancelledError:
            if not ended.done():
                self._give_up(slot)
            raise

    def close(self) -> None:
        """End the idle threads; lost ones end with their functions, or with the process."""
        while self._idle:
            self._idle.pop().tasks.put(None)

    def _take_slot(self) -> _Slot:
        if self._idle:
            return self._idle.pop()
        slot = _Slot(self._name)
        slot.start()
        return slot

    def _release(self, slot: _Slot) -> None:
        if slot.is_given_up:
            slot.is_given_up = False
            self.lost -= 1
        self._idle.append(slot)
        self._free.release()

    def _give_up(self, slot: _Slot) -> None:
        slot.is_given_up = True
        self.lost += 1
        if self.lost * WORN_SHARE >= self._slots and self._on_worn is not None:
            on_worn, self._on_worn = self._on_worn, None
            on_worn()


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    # A function given up may return after the loop is closed: nobody is left to be told.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(callback)


def _execute(function: Callable[[], T], ended: Future[T]) -> None:
    try:
        result = function()
    except (StopIteration, GeneratorExit, CancelledError, asyncio.CancelledError) as caught:
        # Futures, tasks and coroutines would take these for words of their own.
        ended.set_exception(_wrapped(caught))
    except BaseException as caught:  # noqa: BLE001 - sys.exit in a handler too ends its run only
        ended.set_exception(caught)
    else:
        ended.set_result(result)


def _wrapped(caught: BaseException) -> RuntimeError:
    error = RuntimeError(f"the handler raised {caught!r}")
    error.__cause__ = caught
    return error
