"""A server's processes, ended all at once as a power cut ends them, and nobody else's.

A session that is killed alone may hold a lock that the others of its server wait for without ever
noticing that their postmaster is gone: only all together is a crash that a start recovers from.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


def cut_power(parent: int) -> None:
    """Kill a process that we started, and every child of it.

    Where there is no /proc, the children are left to end by themselves.

    Args:
        parent: Stopped first, so that no child comes while they are counted.
    """
    os.kill(parent, signal.SIGSTOP)
    handles = [handle for pid in _pids() if (handle := _open_child(pid, parent)) is not None]
    for handle in handles:
        with suppress(ProcessLookupError):  # it was just ending by itself
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)
    os.kill(parent, signal.SIGKILL)


def _pids() -> list[int]:
    if not PROC.is_dir():
        return []
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def _open_child(pid: int, parent: int) -> int | None:
    """Open a process if it is a child: the handle stays its own, whoever gets its pid later."""
    try:
        if _parent_of(pid) != parent:
            return None
        handle = os.pidfd_open(pid)
        if _parent_of(pid) == parent:
            return handle
        os.close(handle)
    except (ProcessLookupError, FileNotFoundError):
        return None  # gone between two looks
    return None


def _parent_of(pid: int) -> int:
    # The name, in parentheses, may hold anything; the state and then the parent follow it.
    words = (PROC / str(pid) / "stat").read_text("utf-8").rpartition(")")[2].split()
    return int(words[1])
