"""Where a handler runs that is no coroutine: in a thread, or in a process of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hudhud.worker.child import FACTS, Line, Request
from hudhud.worker.processes import ProcessPool
from hudhud.worker.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hudhud.worker.handler import AnyHandler


class Pools:
    """The threads and processes of one worker; belongs to one event loop."""

    def __init__(self, *, threads: int, processes: int, on_worn: Callable[[], None]) -> None:
        """Make the pools; nothing is started before the first run that needs it.

        Args:
            threads: Plain functions at once.
            processes: Process handlers at once.
            on_worn: Called once, on the loop, when a quarter of the threads are lost to runs that
                were given up: the process should hand its work back and be replaced.
        """
        self._threads = ThreadPool(threads, on_worn=on_worn)
        self._processes = ProcessPool(processes)

    @property
    def lost_threads(self) -> int:
        """Threads whose run was given up and whose function has not returned yet."""
        return self._threads.lost

    async def run(
        self,
        handler: AnyHandler,
        ctx: Any,  # noqa: ANN401 - handed on to the handler as it is
        payload: Mapping[str, Any],
    ) -> object:
        """Run a handler and return its result.

        Cancelling this kills a process, and leaves a thread to itself: tell the context first that
        its run is over.

        Args:
            handler: What to run; its `kind` says where, and is "thread" or "process".
            ctx: The run's `Context`. In a thread it is the same object; a process gets its facts,
                and what it logs there is logged here.
            payload: The fields to call the handler with.

        Raises:
            ProcessDiedError: The handler's process died.
            UnsentResultError: What the handler returned does not cross processes.
            Exception: What the handler raised.
        """
        if handler.kind == "thread":
            return await self._threads.run(partial(handler.function, ctx, **payload))
        return await self._processes.run(_request(handler, ctx, payload), partial(_report, ctx))

    def close(self) -> None:
        """End the threads and processes that run nothing."""
        self._threads.close()
        self._processes.close()


def _request(
    handler: AnyHandler,
    ctx: Any,  # noqa: ANN401 - only its facts are read
    payload: Mapping[str, Any],
) -> Request:
    function: Any = handler.function
    facts = {name: getattr(ctx, name) for name in FACTS}
    return Request(function.__module__, function.__qualname__, facts, payload)


def _report(ctx: Any, line: Line) -> None:  # noqa: ANN401 - whatever has log and progress
    getattr(ctx, line.method)(*line.arguments, **line.options)
