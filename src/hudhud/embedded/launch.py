"""Start the postmaster, tied to our life, and wait until it takes connections."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from hudhud.embedded.place import socket_directory
from hudhud.embedded.program import as_owner
from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

START_SECONDS_MAX = 60  # crash recovery of a busy server comes first
LOG_BYTES_MAX = 10 * 1024 * 1024

# The subshells' $$ is the pid of the shell, which becomes the server's by exec.
_TIE = 'exec 3<&0 </dev/null; ( (read -r _ <&3 || kill -INT $$) & ); exec 3<&-; exec "$@"'


def launch(directory: Path, programs: Path, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the postmaster and return its process when it takes connections.

    Crash recovery and backends that have not yet noticed a killed postmaster are waited for.

    Args:
        directory: The server's, with its data.
        programs: Where PostgreSQL's programs are.
        settings: PostgreSQL settings by name, over our own few.

    Raises:
        ConfigError: It ended instead; the message has its last words.
    """
    command = _command(directory, programs, settings)
    log = directory / "postgresql.log"
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        log.replace(directory / "postgresql.log.old")
    deadline = time.monotonic() + START_SECONDS_MAX
    said = ""
    while True:
        said_before = log.stat().st_size if log.exists() else 0
        process = _spawn(command, log)
        if becomes_ready(directory, process, deadline):
            return process
        let_go(process)
        with log.open("rb") as output:
            output.seek(said_before)
            said = output.read().decode(errors="replace") or said
        # Backends of a killed postmaster need a moment to notice that it is gone.
        if "is still in use" not in said or time.monotonic() > deadline:
            message = f"The embedded PostgreSQL did not start. {log} ends with:\n{said[-2000:]}"
            raise ConfigError(message)
        time.sleep(0.05)


def let_go(process: subprocess.Popen[bytes]) -> None:
    """Wait for a postmaster that is ending, and send its watcher home."""
    process.wait()
    if process.stdin is None or process.stdin.closed:
        return
    with contextlib.suppress(BrokenPipeError):  # the watcher may be gone as well
        process.stdin.write(b"stopped\n")
    process.stdin.close()


def _command(directory: Path, programs: Path, settings: Mapping[str, str]) -> list[str | Path]:
    wanted = {
        "listen_addresses": "",
        "unix_socket_directories": str(socket_directory(directory)),
        "unix_socket_permissions": "0700",
        "max_connections": "200",
        **settings,
    }
    options = [word for name, value in wanted.items() for word in ("-c", f"{name}={value}")]
    return [*as_owner(directory), programs / "postgres", "-D", directory / "data", *options]


def _spawn(command: list[str | Path], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            ["/bin/sh", "-c", _TIE, "hudhud", *command],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us; we then stop the server in order
        )


def becomes_ready(directory: Path, process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Wait until a postmaster takes connections; False if it ended, at the deadline by our hand."""
    status = directory / "data" / "postmaster.pid"
    while process.poll() is None:
        lines = _lines_of(status)
        if lines[:1] == [str(process.pid)] and lines[7:8] and lines[7].strip() == "ready":
            return True
        if time.monotonic() > deadline:
            process.send_signal(signal.SIGQUIT)
            process.wait()
        time.sleep(0.005)
    return False


def _lines_of(status: Path) -> list[str]:
    """Read a file that a postmaster which gives up removes, maybe between two looks at it."""
    try:
        return status.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
