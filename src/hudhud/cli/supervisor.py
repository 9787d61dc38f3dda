"""Children that are kept alive: several workers, a worker in development, `hudhud up`.

A child that dies, or cannot be started, is tried again after a growing pause; one that says that
it cannot work (wrong use, a schema that does not fit) ends the whole. A child's stdin is a pipe of
ours: should we be killed, it reads the end and stops in order, so nothing is left behind without a
supervisor.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hudhud.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

SUPERVISED = "_HUDHUD_SUPERVISED"
"""Set for children: the end of stdin means that the supervisor is gone."""
RESTART = 75
"""The exit code of a child that wants to be started anew, at once (sysexits' EX_TEMPFAIL)."""
HOPELESS = frozenset({2, 4})
"""Exit codes that another start would only repeat: wrong use or configuration, schema."""
PAUSE_SECONDS_MIN = 0.2
PAUSE_SECONDS_MAX = 30.0
STEADY_SECONDS = 60.0  # a child that lived so long has earned a prompt restart
WATCH_SECONDS = 0.3


@dataclass(slots=True)
class Child:
    """One process to keep alive.

    Attributes:
        name: For people.
        arguments: Of `hudhud`, beginning with the command.
        environment: What it has beside ours.
        process: The one that lives, or the last one that did.
    """

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    process: asyncio.subprocess.Process | None = None


class Supervisor:
    """Keeps children alive until a signal, or until one of them says that it is hopeless."""

    def __init__(
        self, children: Sequence[Child], *, stop_seconds: float, watched: Path | None = None
    ) -> None:
        """Make a supervisor; `run` starts the children.

        Args:
            children: In the order of their start.
            stop_seconds: How long they may take to stop before they are killed.
            watched: In development: they are restarted when a Python file below it changes.
        """
        self._children = children
        self._stop_seconds = stop_seconds
        self._watched = watched
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._is_hurried = False
        self._exit_code = 0

    async def run(self) -> int:
        """Keep the children alive; return the exit code for ourselves."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        keepers = [asyncio.create_task(self._keep(child)) for child in self._children]
        watcher = asyncio.create_task(self._watch(self._watched)) if self._watched else None
        await self._stopping.wait()
        if watcher is not None:
            watcher.cancel()
        self._signal(signal.SIGTERM)
        _, late = await asyncio.wait(keepers, timeout=self._stop_seconds)
        if late:
            note(f"{len(late)} did not stop within {self._stop_seconds:g} s and were killed.")
            self._signal(signal.SIGKILL)
            await asyncio.wait(late)
        return self._exit_code

    def stop(self) -> None:
        """Make `run` end as the first signal does; safe to call more than once."""
        self._stopping.set()

    def _on_signal(self) -> None:
        if not self._stopping.is_set():
            self.stop()
        elif not self._is_hurried:
            self._is_hurried = True
            self._signal(signal.SIGINT)  # a second SIGTERM could melt into the first
        else:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.process is not None and child.process.returncode is None:
                child.process.send_signal(number)

    async def _keep(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        pause = PAUSE_SECONDS_MIN
        while not self._stopping.is_set():
            started = loop.time()
            code = await self._live(child)
            if self._stopping.is_set() or self._gives_up(code):
                return
            if code == RESTART or loop.time() - started > STEADY_SECONDS:
                pause = PAUSE_SECONDS_MIN
            await self._until_next(child, code, pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)

    async def _live(self, child: Child) -> int | None:
        """Start a child and wait for its exit code; None if the system would not start it."""
        try:
            child.process = await self._start(child)
        except (OSError, RuntimeError) as error:  # no process; or no thread to wait for it
            note(f"{child.name} cannot be started: {error}")
            return None
        if self._stopping.is_set():  # the signal came while it was being started
            child.process.terminate()
        return await child.process.wait()

    async def _start(self, child: Child) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hudhud.cli.main",
            *child.arguments,
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, **child.environment, SUPERVISED: "1"},
            start_new_session=True,  # Ctrl-C is for us; we tell the children
        )

    def _gives_up(self, code: int | None) -> bool:
        """Whether nothing is left to try; in development the next change is the next try."""
        if self._watched is None and code in HOPELESS:
            self._exit_code = code
            self._stopping.set()
            return True
        return False

    async def _until_next(self, child: Child, code: int | None, pause: float) -> None:
        """Wait for the moment of the next start: a pause, or a change of the code."""
        if code is None:
            note(f"{child.name} is tried again in {pause:g} s.")
            await self._first_of(asyncio.sleep(pause))
        elif self._watched is None:
            note(f"{child.name} ended with {code} and is started again in {pause:g} s.")
            await self._first_of(asyncio.sleep(pause))
        elif not self._changed.is_set():
            note(f"{child.name} ended with {code} and is started again when a file changes.")
            await self._first_of(self._changed.wait())
        self._changed.clear()

    async def _first_of(self, waiting: Coroutine[object, object, object]) -> None:
        tasks = {asyncio.ensure_future(waiting), asyncio.ensure_future(self._stopping.wait())}
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()

    async def _watch(self, directory: Path) -> None:
        seen = stamps(directory)
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = stamps(directory)
            if now != seen:
                changed = min(path for path, _ in now.items() ^ seen.items())
                note(f"{changed} changed.")
                self._changed.set()
                self._signal(signal.SIGTERM)
            seen = now


def stamps(directory: Path) -> dict[str, int]:
    """Return each Python file below a directory with when it was changed.

    Hidden directories and virtual environments are not entered.
    """
    found: dict[str, int] = {}
    for root, directories, files in os.walk(directory):
        here = Path(root)
        directories[:] = [
            name
            for name in directories
            if not name.startswith(".") and not (here / name / "pyvenv.cfg").exists()
        ]
        for path in (here / name for name in files if name.endswith(".py")):
            try:
                found[str(path)] = path.stat().st_mtime_ns
            except FileNotFoundError:  # gone since it was listed
                continue
    return found


def obey_supervisor() -> None:
    """Let the end of a supervisor, however it died, stop this process as SIGTERM would."""
    if SUPERVISED in os.environ:
        threading.Thread(target=_stop_at_end_of_input, name="supervisor-watch", daemon=True).start()


def _stop_at_end_of_input() -> None:
    # Below sys.stdin: its lock, held at exit, would end the interpreter with a fault.
    while os.read(0, 1024):
        continue
    os.kill(os.getpid(), signal.SIGTERM)
