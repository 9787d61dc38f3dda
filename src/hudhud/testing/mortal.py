"""A worker that dies at a chosen await: in this process, and yet as suddenly as a process dies.

What a dead process leaves behind is what others have of it: rows that it committed, requests that
it sent. What it does not do is clean up. So the coroutine is dropped without anything being thrown
into it, its event loop never turns again, and nothing of it is ever collected, for collecting a
coroutine would run its `finally` blocks.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import linecache
import os
import selectors
import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from typing_extensions import override

from hudhud.testing.bench import opened

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Iterator, Sequence
    from types import FrameType

    from hudhud.testing.bench import Bench
    from hudhud.testing.drained import EndedRun
    from hudhud.worker.context import Context
    from hudhud.worker.handler import AnyHandler
    from hudhud.worker.runner import Attempt
    from hudhud.worker.worker import Application

LIFE_SECONDS_MAX: Final = 600.0  # a hang, and nothing else, takes that long


class Killed(SystemExit):
    """The process has died. A SystemExit, because nothing else stops an event loop at once."""


class Death:
    """What a dying run awaits: no future, but enough of one for its task to begin to wait for it.

    The loop is stopped from there, past the task: neither the run nor whoever awaits it is resumed,
    so nothing can be caught and nothing is cleaned up.
    """

    def __init__(self) -> None:
        self._asyncio_future_blocking = True
        self._loop = asyncio.get_running_loop()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, as every future does."""
        return self._loop

    def add_done_callback(self, *_: object, **__: object) -> None:
        """Stop the loop, instead of waking somebody up later."""
        raise Killed


@dataclass(slots=True)
class Life:
    """One run in a worker that is to die, and how it ended.

    Attributes:
        point: At which step it dies: 0 is before the first line, n at the n-th await, and the one
            after the last is after the return.
        queues: Whose jobs it looks for; None for all.
        where: Where it died, in words; None when it lived.
        ended: The run, when it lived and there was one.
        failure: What kept it from living at all: the lifespan, the database.
    """

    point: int
    queues: Sequence[str] | None = None
    where: str | None = None
    ended: EndedRun | None = None
    failure: BaseException | None = None


def live(application: Application, url: str, life: Life) -> None:
    """Run the job that is due next in a worker of its own, until it dies or has ended.

    Args:
        application: Its handlers.
        url: Address of the database.
        life: When to die; says afterwards how it was.

    Raises:
        TimeoutError: The run hangs.
        BaseException: What kept the worker from starting or stopping.
    """
    thread = threading.Thread(
        target=_live, args=(application, url, life), name="hudhud-mortal", daemon=True
    )
    thread.start()
    thread.join(LIFE_SECONDS_MAX)
    if thread.is_alive():
        message = f"the run did not end within {LIFE_SECONDS_MAX:g} s"
        raise TimeoutError(message)
    if life.failure is not None:
        raise life.failure


def keep_forever(*things: object) -> None:
    """Keep things from ever being collected, not even when the interpreter ends."""
    for thing in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


class Mortal(Generator[Any, Any, object]):
    """Awaits something step by step, until its time has come."""

    def __init__(self, work: Awaitable[object], life: Life, handler: AnyHandler | None) -> None:
        """Make one.

        Args:
            work: What to await: an attempt, its middleware included.
            life: At which step it dies.
            handler: The attempt's, whose lines a person wants to see.
        """
        self._work = work
        self._steps: Any = work.__await__()
        self._life = life
        self._handler = handler
        self._step = 0
        self._where = "before its first line"

    def __await__(self) -> Mortal:
        return self

    @override
    def send(self, value: Any) -> Any:
        """Go on to the next await, unless this is where the run dies."""
        if self._dies(self._where):
            return Death()
        try:
            waited_for = self._steps.send(value)
        except BaseException as end:
            has_returned = isinstance(end, StopIteration)
            ended = "its return" if has_returned else f"it raised {type(end).__name__}"
            if self._dies(f"after {ended}, before that was recorded"):
                return Death()
            raise
        self._where = self._place()
        return waited_for

    @override
    def throw(self, *error: Any) -> Any:
        """Let an interruption through; a time limit is no death."""
        return self._steps.throw(*error)

    @override
    def close(self) -> None:
        """Keep anybody's tidying up from reaching the handler."""

    def _dies(self, where: str) -> bool:
        """Count a step; say whether it is the last one."""
        is_last = self._step == self._life.point
        if is_last:
            self._life.where = where
            keep_forever(self._work, self._steps)
        self._step += 1
        return is_last

    def _place(self) -> str:
        if self._handler is not None and self._handler.kind != "async":
            return "after its return, before its worker knew"
        function = None if self._handler is None else inspect.unwrap(self._handler.function)
        code = getattr(function, "__code__", None)
        frames = list(_frames(self._work))
        frame = next((one for one in frames if one.f_code is code), frames[-1])
        file, line = frame.f_code.co_filename, frame.f_lineno
        text = linecache.getline(file, line).strip()
        return f"killed at {_short(file)}:{line} in {frame.f_code.co_name}, `{text}`"


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that knows every socket that was connected through it.

    The selector knows those that it watches; in the midst of a connect it watches none.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        super().__init__(selector)
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._watched = selector

    @override
    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        self._sockets.add(sock)
        await super().sock_connect(sock, address)

    def bury(self) -> None:
        """Leave nothing that could still do anything.

        The tasks are kept from being collected. The sockets are replaced by nothing at all, as the
        kernel does it: the other end sees them closed, and no code of ours or of theirs runs.
        """
        keep_forever(*asyncio.all_tasks(self), *self._sockets)
        watched = list(self._watched.get_map().values())
        keep_forever(*watched)
        nothing = os.open(os.devnull, os.O_RDWR)
        for place in {*(one.fileno() for one in self._sockets), *(one.fd for one in watched)}:
            if place >= 0:
                os.dup2(nothing, place)
        os.close(nothing)


def _live(application: Application, url: str, life: Life) -> None:
    loop = _Loop(selectors.DefaultSelector())
    try:
        loop.run_until_complete(_run_next(application, url, life))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    except Killed:
        loop.bury()
    except BaseException as failure:  # noqa: BLE001 - raised again where somebody waits for it
        life.failure = failure
    loop.close()


async def _run_next(application: Application, url: str, life: Life) -> None:
    async with opened(application, url) as bench:
        bench.runner.attempt = _mortal(bench, life)
        # The lease is over from the start: nobody but the test rescues it, and that at once.
        life.ended = await bench.run_next(life.queues, lease_seconds=0)


def _mortal(bench: Bench, life: Life) -> Attempt:
    attempt = bench.runner.attempt

    async def mortal(context: Context) -> object:
        handler = bench.application.registry.find(context.type, context.version)
        return await Mortal(attempt(context), life, handler)

    return mortal


def _frames(work: object) -> Iterator[FrameType]:
    """Walk from what is awaited to the innermost frame that waits."""
    while work is not None:
        for frame, inner in (("cr_frame", "cr_await"), ("ag_frame", "ag_await")):
            if getattr(work, frame, None) is not None:
                yield getattr(work, frame)
                work = getattr(work, inner)
                break
        else:
            return


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else path.name
