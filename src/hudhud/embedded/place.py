"""Where an embedded server lives, and how it is reached."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING

from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLE = "hudhud"
DATABASE = "hudhud"
SUPERUSER = "postgres"
SOCKET = ".s.PGSQL.5432"
SOCKET_PATH_BYTES_MAX = 103  # macOS allows 104 with the closing NUL, Linux 108


def default_directory(environment: Mapping[str, str]) -> Path:
    """Where the embedded server lives: as set, or `hudhud` in the user's data directory.

    Args:
        environment: As os.environ: HUDHUD_EMBEDDED_DIRECTORY, then XDG_DATA_HOME.
    """
    if chosen := environment.get("HUDHUD_EMBEDDED_DIRECTORY"):
        return Path(chosen).expanduser().absolute()
    home = environment.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser().absolute() / "hudhud"


def find_server(directory: str | Path) -> str | None:
    """Return the DSN of the server that runs in a directory, whoever started it; None without."""
    directory = Path(directory).expanduser().absolute()
    return dsn(directory, ROLE, DATABASE) if answers(directory) else None


def answers(directory: Path) -> bool:
    """Whether a server listens on the directory's socket, ready or not."""
    path = socket_directory(directory) / SOCKET
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError, PermissionError):
            return False
    return True


def socket_directory(directory: Path) -> Path:
    """Return the directory itself, or a private one with a short name if its path is too long."""
    if len(os.fsencode(directory / SOCKET)) <= SOCKET_PATH_BYTES_MAX:
        return directory
    name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    short = Path(tempfile.gettempdir()) / f"hudhud-{os.geteuid()}-{name}"
    short.mkdir(mode=0o700, exist_ok=True)
    status = short.lstat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        message = (
            f"{short} belongs to somebody else."
            " Remove it, or set a shorter HUDHUD_EMBEDDED_DIRECTORY."
        )
        raise ConfigError(message)
    return short


def dsn(directory: Path, role: str, database: str) -> str:
    """Return the connection string of a role and a database over the directory's socket."""
    host = urllib.parse.quote(str(socket_directory(directory)), safe="/")
    return f"postgresql://{role}@/{database}?host={host}"
