"""The measured server: its address, and what it has spent (CPU, WAL)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

DSN = os.environ.get("HUDHUD_BENCH_DSN", "postgresql://postgres@127.0.0.1:54321/postgres")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

Connection = psycopg.Connection[tuple[Any, ...]]


def connect() -> Connection:
    """Open a connection that commits by itself."""
    return psycopg.connect(DSN, autocommit=True)


def parent_and_ticks(pid: int) -> tuple[int, tuple[int, int, int, int]]:
    """Read a process's parent and its CPU ticks: user, system, and those of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    user, system, child_user, child_system = (int(field) for field in fields[11:15])
    return int(fields[1]), (user, system, child_user, child_system)


def server_cpu_seconds(connection: Connection) -> float:
    """CPU seconds that the server has used, all its processes together, ended ones included."""
    postmaster, _ = parent_and_ticks(connection.info.backend_pid)
    total = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent, ticks = parent_and_ticks(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(entry.name) == postmaster:
            total += sum(ticks)
        elif parent == postmaster:
            total += sum(ticks[:2])
    return total / TICKS_PER_SECOND


def wal_bytes(connection: Connection) -> int:
    """Position in the write-ahead log."""
    row = connection.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return int(row[0])


@dataclass(frozen=True, slots=True)
class Spent:
    """What the server had spent at one moment, or between two."""

    cpu_seconds: float = 0.0
    wal_bytes: int = 0

    @classmethod
    def now(cls, connection: Connection) -> Spent:
        """Read both counters."""
        return cls(server_cpu_seconds(connection), wal_bytes(connection))

    def __sub__(self, earlier: Spent) -> Spent:
        """What was spent since an earlier moment."""
        return Spent(self.cpu_seconds - earlier.cpu_seconds, self.wal_bytes - earlier.wal_bytes)


NOTHING = Spent()
