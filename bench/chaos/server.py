"""The PostgreSQL of a run: durable, with the record installed; killed and started again."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from bench.chaos import query
from bench.chaos.kin import cut_power
from hudhud.embedded import Embedded
from hudhud.store import migrate

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

SETTINGS: Final = {
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",  # the message is enough; statements are long
    "max_wal_size": "2GB",
    "shared_buffers": "256MB",
}
_DEADLOCK: Final = "deadlock detected"


class Server:
    """One server in one directory, whoever of its processes lives now.

    Attributes:
        dsn: Of the role that owns the schema; it stays the same through every restart.
        other_dsn: Of another database on the same server.
    """

    def __init__(
        self, directory: Path, *, is_empty: bool = False, template: Path | None = None
    ) -> None:
        """Make and start it, with hudhud's schema and the record's.

        Args:
            directory: Its own.
            is_empty: Without any schema: something is to be restored into it.
            template: One that was made like this, and stopped: it is copied, which is faster.
        """
        self._directory = directory
        if template is not None:
            # With its owner, who is not us when we are root.
            subprocess.run(["cp", "-a", template, directory], check=True)  # noqa: S607 - anyone's
        self._embedded = Embedded.start(directory, settings=SETTINGS)
        self.dsn = self._embedded.dsn
        self.other_dsn = self._embedded.admin_dsn
        if not is_empty and template is None:
            migrate.apply(self.dsn)
            query.install(self.dsn)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._embedded.stop()

    def kill(self, *, whole: bool) -> None:
        """Kill the postmaster with SIGKILL and start another on what it left.

        Args:
            whole: And all its processes with it, in the middle of whatever they do. Without, they
                end by themselves once they notice.
        """
        if whole:
            cut_power(self._embedded.pid)
        self._embedded.kill()
        self._embedded = Embedded.start(self._directory, settings=SETTINGS)

    @property
    def deadlocks(self) -> int:
        """How many deadlocks it has seen in its life."""
        log = (self._directory / "postgresql.log").read_text("utf-8", errors="replace")
        return log.count(_DEADLOCK)
