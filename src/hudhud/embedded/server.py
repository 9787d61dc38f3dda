"""A running embedded server as an object: start, stop, kill."""

from __future__ import annotations

import os
import signal
import subprocess
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hudhud.embedded.cluster import STOP_SECONDS_MAX, check_version, clear_way, make_cluster, take
from hudhud.embedded.launch import launch, let_go
from hudhud.embedded.place import DATABASE, ROLE, SUPERUSER, dsn
from hudhud.embedded.program import find_programs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
_FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Embedded:
    """One running PostgreSQL, started by this process and stopped with it.

    Attributes:
        directory: Where the server keeps everything; absolute.
        pid: The postmaster's process id.
        dsn: Connection string of the role `hudhud`, which owns the database `hudhud` and is no
            superuser.
        admin_dsn: Connection string of the superuser, in the database `postgres`.
    """

    def __init__(
        self, directory: Path, process: subprocess.Popen[bytes], *, lock: IO[str], durable: bool
    ) -> None:
        self.directory = directory
        self.pid = process.pid
        self.dsn = dsn(directory, ROLE, DATABASE)
        self.admin_dsn = dsn(directory, SUPERUSER, "postgres")
        self._process = process
        self._lock = lock
        self._durable = durable
        # A forked child must keep neither the server alive nor the directory taken.
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _leave_to_parent(itself()))

    @classmethod
    def start(
        cls,
        directory: str | Path,
        *,
        version: int = 18,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
        programs: Path | None = None,
    ) -> Self:
        """Start the server of a directory, making the directory and the cluster if need be.

        Args:
            directory: Of this server alone. A server that an earlier process left behind in it is
                stopped first; a crashed one is recovered by PostgreSQL itself.
            version: Major version, 18 or 16; the data stays with the version that made it.
            durable: False gives up fsync for speed: for tests that do not crash the server.
            settings: Further PostgreSQL settings, by name.
            programs: Directory of PostgreSQL's programs, instead of those of the wheel.

        Raises:
            ConfigError: Another living process serves the directory, the data is of another
                version, the extra `embedded` is not installed, or PostgreSQL did not start; the
                message says which and what to do.
        """
        directory = Path(directory).expanduser().absolute()
        programs = programs or find_programs(version)
        lock = take(directory)
        try:
            clear_way(directory, programs)
            if not (directory / "data").exists():
                make_cluster(directory, programs, durable=durable)
            check_version(directory, version)
            wanted = {**(_DURABLE if durable else _FORGETFUL), **(settings or {})}
            process = launch(directory, programs, wanted)
        except BaseException:
            lock.close()
            raise
        return cls(directory, process, lock=lock, durable=durable)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether the postmaster lives; False after a crash, too."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Shut the server down, ending open connections; again, or in a fork, it does nothing.

        A durable server writes a checkpoint first; another one is stopped at once.
        """
        if self._lock.closed:
            return
        if self.is_running:
            self._process.send_signal(signal.SIGINT if self._durable else signal.SIGQUIT)
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
        self._release()

    def kill(self) -> None:
        """Kill the postmaster with SIGKILL, as a crash would. `start` on the directory recovers."""
        self._process.kill()
        self._release()

    def forget(self) -> None:
        """Let go of the server without stopping it, as a forked child must do."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._lock.close()

    def _release(self) -> None:
        let_go(self._process)
        self._lock.close()


def _leave_to_parent(embedded: Embedded | None) -> None:
    if embedded is not None:
        embedded.forget()
