"""What processes have used, as Linux tells it: CPU seconds and resident memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")


def tree_cpu_seconds(root: int) -> float:
    """Return the CPU seconds of a process and its children, also of those that have ended."""
    total = 0
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent, ticks = _parent_and_ticks(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked; its parent has its ticks now
        if int(entry.name) == root:
            total += sum(ticks)
        elif parent == root:
            total += sum(ticks[:2])
    return total / TICKS_PER_SECOND


def parent_of(pid: int) -> int:
    """Return a process's parent: of a server's backend, the postmaster."""
    return _parent_and_ticks(pid)[0]


def name_of(pid: int) -> str:
    """Return a process's name, empty when there is no such process."""
    try:
        return (_PROC / str(pid) / "comm").read_text("ascii").strip()
    except FileNotFoundError:
        return ""


def resident_mib(pid: int, *, peak: bool = False) -> float:
    """Return a process's resident memory in MiB, now or the most that it ever was."""
    word = "VmHWM:" if peak else "VmRSS:"
    status = (_PROC / str(pid) / "status").read_text("ascii")
    line = next(line for line in status.splitlines() if line.startswith(word))
    return int(line.split()[1]) / 1024


def _parent_and_ticks(pid: int) -> tuple[int, tuple[int, int, int, int]]:
    """Read a process's parent and its ticks: user, system, and those of its ended children."""
    fields = (_PROC / str(pid) / "stat").read_text("ascii", "replace").rsplit(")", 1)[1].split()
    user, system, child_user, child_system = (int(field) for field in fields[11:15])
    return int(fields[1]), (user, system, child_user, child_system)
