"""The measured server, and databases on it that are as they would be after weeks of use."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bench.engine import usage
from hudhud.embedded import Embedded
from hudhud.store import migrate

if TYPE_CHECKING:
    from collections.abc import Generator

Connection = psycopg.Connection[tuple[Any, ...]]

# As a server has them that is used in earnest; everything else is PostgreSQL's default.
SETTINGS: Final = {
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "jit": "off",
}
# With yesterday, today and the 14 days ahead that migrate makes: 60 daily partitions.
PAST_DAYS: Final = 45
WAIT_SECONDS_MAX: Final = 300
POLL_SECONDS: Final = 0.002
NAME: Final = "hudhud_bench"


@dataclass(frozen=True, slots=True)
class Spent:
    """What the server had spent at one moment: CPU seconds of all its processes, bytes of WAL."""

    cpu_seconds: float
    wal_bytes: int


class Database:
    """One database of a run.

    Attributes:
        dsn: For the measured: the role that owns the schema.
        admin: For the measuring: may write checkpoints.
        past_days: For how many days before today there are partitions.
    """

    def __init__(self, dsn: str, admin: Connection, *, past_days: int) -> None:
        self.dsn = dsn
        self.past_days = past_days
        self.admin = admin
        self._postmaster = usage.parent_of(admin.info.backend_pid)

    def connect(self) -> Connection:
        """Open a connection of the owner; each statement commits."""
        return psycopg.connect(self.dsn, autocommit=True)

    def spent(self) -> Spent:
        """Read what the server has spent until now."""
        row = self.admin.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        return Spent(usage.tree_cpu_seconds(self._postmaster), int(row[0]))

    def wait_for_worker(self) -> None:
        """Wait until a worker has made itself known."""
        self._wait("select exists (select from hudhud.worker)")

    def wait_until_drained(self, schema: str = "hudhud") -> float:
        """Wait until nothing is claimable and nothing is claimed; return when that was."""
        self._wait(
            f"select not exists (select from {schema}.ready)"  # noqa: S608
            f" and not exists (select from {schema}.lease)"
        )
        return time.monotonic()

    def _wait(self, condition: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while self.admin.execute(condition.encode()).fetchone() != (True,):
            if time.monotonic() > deadline:
                message = f"not within {WAIT_SECONDS_MAX} s: {condition}"
                raise TimeoutError(message)
            time.sleep(POLL_SECONDS)

    def settle(self) -> None:
        """Bring statistics up to date and write a checkpoint, so that neither falls into a run."""
        self.admin.execute("analyze")
        self.admin.execute("checkpoint")


class Server:
    """A PostgreSQL that makes databases for measurements and drops them."""

    def __init__(self, admin_dsn: str, owner: str | None, *, past_days: int = PAST_DAYS) -> None:
        """Take a server.

        Args:
            admin_dsn: Of a role that may make databases and write checkpoints.
            owner: The role that owns what is measured; None for the same.
            past_days: For how many days before today each database has partitions.

        Raises:
            RuntimeError: It does not run on this machine: what it uses cannot be seen then.
        """
        self.admin_dsn = admin_dsn
        self.owner = owner
        self.past_days = past_days
        self._name = f"{NAME}_{os.getpid()}"
        self._template = f"{self._name}_template"
        with self.admin() as connection:
            if usage.name_of(connection.info.backend_pid) != "postgres":
                message = "The server to measure must run on this machine, and be visible in /proc."
                raise RuntimeError(message)
            row = connection.execute("select current_user").fetchone()
            assert row is not None
            self._owner = owner or str(row[0])
            connection.execute(f'create database {self._template} owner "{self._owner}"'.encode())
        migrate.apply(self._dsn(self._template))
        with psycopg.connect(self._dsn(self._template)) as connection:
            connection.execute(sql("past_days").format(days=past_days).encode())

    def admin(self, database: str | None = None) -> Connection:
        """Open a connection for the measuring; each statement commits."""
        dsn = make_conninfo(self.admin_dsn, **({"dbname": database} if database else {}))
        return psycopg.connect(dsn, autocommit=True)

    @contextmanager
    def database(self, suffix: str = "") -> Generator[Database]:
        """Make a database with an empty schema of 60 days; it is dropped at the end."""
        name = f"{self._name}{suffix}"
        with self.admin() as server:
            server.execute(
                f'create database {name} template {self._template} owner "{self._owner}"'.encode()
            )
            try:
                with self.admin(name) as connection:
                    yield Database(self._dsn(name), connection, past_days=self.past_days)
            finally:
                _drop(server, name)

    def close(self) -> None:
        """Leave nothing behind."""
        with self.admin() as connection:
            _drop(connection, self._template)

    def _dsn(self, database: str) -> str:
        options = {"dbname": database} | ({"user": self.owner} if self.owner else {})
        return make_conninfo(self.admin_dsn, **options)


@contextmanager
def server(database_url: str | None) -> Generator[Server]:
    """Use the server that is named, or start an embedded one with durable settings.

    Args:
        database_url: Of a superuser on a server of this machine that is there to be measured.
    """
    if database_url is not None:
        taken = Server(database_url, None)
        try:
            yield taken
        finally:
            taken.close()
        return
    # Not the usual place for temporary files, which may be in memory: what is measured is durable.
    disk = Path("/var/tmp")  # noqa: S108 - a private directory is made in it
    with (
        tempfile.TemporaryDirectory(
            prefix="hudhud-bench-", dir=disk if disk.is_dir() else None
        ) as folder,
        Embedded.start(Path(folder) / "server", settings=SETTINGS) as embedded,
    ):
        yield Server(embedded.admin_dsn, str(conninfo_to_dict(embedded.dsn)["user"]))


def sql(name: str) -> str:
    """Return a file of `sql/`."""
    return (resources.files("bench.engine") / "sql" / f"{name}.sql").read_text("utf-8")


def _drop(connection: Connection, name: str) -> None:
    connection.execute(f"drop database if exists {name} with (force)".encode())
