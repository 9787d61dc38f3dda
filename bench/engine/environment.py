"""Where a figure was measured: without that it means nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS: Final = (
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "wal_compression",
    "jit",
    "autovacuum",
)
LIBRARIES: Final = ("hudhud", "psycopg", "psycopg-binary", "asyncpg", "uvloop")
_ROOT: Final = Path(__file__).resolve().parents[2]


def read(connection: psycopg.Connection[tuple[Any, ...]]) -> dict[str, object]:
    """Return the machine, the server, the libraries and the date of a run."""
    row = connection.execute(
        "select clock_timestamp()::timestamptz(0), current_setting('server_version')"
    ).fetchone()
    assert row is not None
    return {
        "date": row[0].isoformat(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "postgresql": row[1].split()[0],
        "settings": _settings(connection),
        "libraries": {name: metadata.version(name) for name in LIBRARIES},
        "psycopg_implementation": psycopg.pq.__impl__,
        "commit": _commit(),
    }


def _settings(connection: psycopg.Connection[tuple[Any, ...]]) -> Mapping[str, str]:
    rows = connection.execute(
        "select name, current_setting(name) from unnest(%s::text[]) name", [list(SETTINGS)]
    )
    return dict(rows.fetchall())


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    """Return the checkout's commit, with a mark if it has been changed since."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607 - whichever git there is
        cwd=_ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    return described.stdout.strip() or "unknown"
