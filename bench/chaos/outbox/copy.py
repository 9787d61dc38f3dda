"""A database dumped and restored, as people do it, where transaction ids begin anew."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from hudhud.embedded.program import find_programs

if TYPE_CHECKING:
    from pathlib import Path


def copy(source: str, target: str, log: Path) -> None:
    """Restore what is in one database into another, which has nothing yet.

    Args:
        source: DSN of the owner, and of the database.
        target: The same.
        log: What the programs say is written there.

    Raises:
        RuntimeError: A program failed.
    """
    programs = find_programs(18)
    with log.open("ab") as said:
        with subprocess.Popen(
            [programs / "pg_dump", "--no-comments", source], stdout=subprocess.PIPE, stderr=said
        ) as dump:
            restore = subprocess.run(
                [programs / "psql", "--quiet", "--set", "ON_ERROR_STOP=1", target],
                stdin=dump.stdout,
                stdout=said,
                stderr=said,
                check=False,
            )
        if dump.returncode or restore.returncode:
            message = f"the copy failed; see {log}"
            raise RuntimeError(message)
