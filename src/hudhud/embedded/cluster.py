"""The data of an embedded server: one process at a time, made whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from importlib import resources
from typing import IO, TYPE_CHECKING

from hudhud.embedded.place import DATABASE, ROLE, SOCKET, SUPERUSER, answers, dsn, socket_directory
from hudhud.embedded.program import run
from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

STOP_SECONDS_MAX = 60  # a fast shutdown writes a checkpoint


def take(directory: Path) -> IO[str]:
    """Make the directory if need be, and take its lock for as long as the file stays open.

    Raises:
        ConfigError: Another process holds it, it is not writable, or it holds other things.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(directory.iterdir()) and not (directory / "lock").exists():
            message = (
                f"{directory} holds something else already. Choose an empty directory, or one "
                "that does not exist, with HUDHUD_EMBEDDED_DIRECTORY."
            )
            raise ConfigError(message)
        directory.chmod(0o700)  # whoever reaches the socket is trusted
        lock = (directory / "lock").open("a+", encoding="utf-8")
    except PermissionError as error:
        message = (
            f"The embedded PostgreSQL cannot write to {directory}. Give this user the directory, "
            "or choose another one with HUDHUD_EMBEDDED_DIRECTORY."
        )
        raise ConfigError(message) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        pid = lock.read().strip() or "unknown"
        lock.close()
        message = (
            f"Another hudhud (pid {pid}) serves {directory}. Stop it, or join it with "
            f"HUDHUD_DATABASE_URL='{dsn(directory, ROLE, DATABASE)}', or choose another "
            "directory with HUDHUD_EMBEDDED_DIRECTORY."
        )
        raise ConfigError(message) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def clear_way(directory: Path, programs: Path) -> None:
    """Stop a server that an earlier process left behind, or remove what a dead one left."""
    # We hold the lock, so whatever is here was left behind by a process that died.
    if answers(directory):
        stop = ("stop", "-m", "fast", "-w", "-t", str(STOP_SECONDS_MAX))
        run(directory, [programs / "pg_ctl", "-D", directory / "data", *stop])
    else:
        # PostgreSQL would take any living process of that pid for its postmaster (after a restart
        # of a container the pid is often somebody else's). What guards the data against a server
        # that is still on its way out is the shared memory's key, not these files.
        (directory / "data" / "postmaster.pid").unlink(missing_ok=True)
        (socket_directory(directory) / f"{SOCKET}.lock").unlink(missing_ok=True)


def make_cluster(directory: Path, programs: Path, *, durable: bool) -> None:
    """Make `data/` with our role and database; killed at any point, the next start does it anew."""
    fresh = directory / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)  # of an initdb that was killed; initdb tells the rest
    version = run(directory, [programs / "initdb", "--version"])
    has_builtin_locale = not version.split()[-1].startswith(("15", "16"))
    locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if has_builtin_locale else []
    options = ["--auth=trust", "--encoding=UTF8", "--locale=C", *locale, f"--username={SUPERUSER}"]
    sync = [] if durable else ["--no-sync"]
    run(directory, [programs / "initdb", "-D", fresh, *options, *sync])
    run(
        directory,
        [programs / "postgres", "--single", "-D", fresh, SUPERUSER],
        stdin=(resources.files("hudhud.store") / "sql" / "cluster.sql").read_text("utf-8"),
    )
    fresh.rename(directory / "data")


def check_version(directory: Path, version: int) -> None:
    """Refuse data of another major version with ConfigError: PostgreSQL would not read it."""
    found = (directory / "data" / "PG_VERSION").read_text("ascii").strip()
    if found != str(version):
        message = (
            f"The data in {directory} was made by PostgreSQL {found}, not {version}. "
            "Choose another directory with HUDHUD_EMBEDDED_DIRECTORY, or dump and restore."
        )
        raise ConfigError(message)
