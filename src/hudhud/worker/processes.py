"""Processes for CPU-bound functions: one run in each, killed when the run is given up.

A child that dies, or is killed, takes nobody with it: its run ends, the others go on, and the next
run gets a fresh child.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib
import multiprocessing
import pickle
import threading
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from hudhud.errors import HudhudError, Retryable
from hudhud.worker.child import Line, Raised, Request, Returned, Unsent, serve
from hudhud.worker.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable

    Report = Callable[[Line], None]

# Fresh interpreters: a fork would copy the locks that other threads hold at that moment.
_SPAWN = multiprocessing.get_context("spawn")
_EXIT_SECONDS = 5.0


class ProcessDiedError(Retryable):
    """The process of this run died: killed, out of memory, or crashed in native code."""

    default_code = "process_died"


class UnsentResultError(HudhudError):
    """What a process handler returned does not cross processes. Return JSON values."""


class _Child:
    """One process and the pipe to it. `execute` runs in a thread, `kill` is for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_killed = False
        self._pipe, self._far_end = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=serve, args=(self._far_end,), name="hudhud-process", daemon=True
        )

    @property
    def is_usable(self) -> bool:
        return not self._is_killed and self._process.is_alive()

    def execute(self, request: Request, report: Report) -> object:
        try:
            self._start()
            self._pipe.send(request)
            while isinstance(message := self._pipe.recv(), Line):
                report(message)
        except (EOFError, OSError) as error:
            self.kill()
            message = f"the process of this run died with exit code {self.exit_code()}"
            raise ProcessDiedError(message) from error
        except BaseException:
            # The line could not be kept, and the child goes on with a run nobody waits for.
            self.kill()
            raise
        match message:
            case Returned():
                return message.result
            case Unsent():
                raise UnsentResultError(message.reason)
            case _:
                raise _exception_of(message)

    def kill(self) -> None:
        atexit.unregister(self.kill)
        with self._lock:
            self._is_killed = True
            if self._process.pid is not None:
                self._process.kill()

    def exit_code(self) -> int | None:
        if self._process.pid is not None:
            self._process.join(_EXIT_SECONDS)
        return self._process.exitcode

    def _start(self) -> None:
        with self._lock:
            if self._process.pid is not None:
                return
            if self._is_killed:
                raise EOFError
            # Before multiprocessing's own exit, which would wait for a child that ignores SIGTERM.
            atexit.register(self.kill)
            self._process.start()
            # The child has its own copy; with ours open its death would never be noticed.
            self._far_end.close()


class ProcessPool:
    """Runs functions in processes; belongs to one event loop."""

    def __init__(self, slots: int) -> None:
        """Make a pool; processes start when they are first needed.

        Args:
            slots: Processes at once, at least 1.
        """
        self._threads = ThreadPool(slots, name="hudhud-process")
        self._idle: list[_Child] = []

    async def run(self, request: Request, report: Report) -> object:
        """Run a request in a process and return what its function returns.

        A cancellation kills the process.

        Args:
            request: Which function, and its arguments.
            report: Called in a thread with each line that the function logs.

        Raises:
            ProcessDiedError: The process ended before the function did.
            UnsentResultError: The function returned what does not cross processes.
            Exception: What the function raised, with the child's traceback as a note.
        """
        child: _Child | None = None

        def begin() -> None:
            nonlocal child
            child = self._take()

        def execute() -> object:
            assert child is not None
            return child.execute(request, report)

        try:
            return await self._threads.run(execute, on_start=begin)
        except asyncio.CancelledError:
            if child is not None:
                child.kill()
            raise
        finally:
            if child is not None and child.is_usable:
                self._idle.append(child)

    def close(self) -> None:
        """End the processes that run nothing; give running ones up first by cancelling."""
        while self._idle:
            child = self._idle.pop()
            child.kill()
            child.exit_code()
        self._threads.close()

    def _take(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if child.is_usable:
                return child
        return _Child()


def _exception_of(raised: Raised) -> BaseException:
    error = _unpickled(raised) or _remade(raised)
    error.add_note(f"In the process:\n{raised.trace}")
    return error


def _unpickled(raised: Raised) -> BaseException | None:
    try:
        error: object = pickle.loads(raised.pickled) if raised.pickled else None  # noqa: S301 - our own child made it
    except Exception:  # noqa: BLE001 - the class may load in the child only
        return None
    return error if isinstance(error, BaseException) else None


def _remade(raised: Raised) -> BaseException:
    """Make an exception of the same class, so that a handler's map of errors still knows it."""
    try:
        cls: Any = attrgetter(raised.qualname)(importlib.import_module(raised.module))
        error: object = cls.__new__(cls, raised.message)
    except Exception:  # noqa: BLE001 - a class made inside a function has no address
        error = None
    if isinstance(error, BaseException):
        return error
    return RuntimeError(f"{raised.module}.{raised.qualname}: {raised.message}")
