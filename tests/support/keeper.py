"""The process that keeps the test run's server: `python -m tests.support.keeper DIRECTORY`.

It starts the server that HUDHUD_TEST_SERVER names, writes server.json, and waits for the lock on
`alive`, which the run holds until it ends. Then it stops the server and removes the directory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hudhud.embedded import Embedded, as_owner
from tests.support.server import KIND, Server, locked
from tests.support.wait import until

if TYPE_CHECKING:
    from collections.abc import Iterator

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
PORT = 5432
POOLER_PORT = 6432
SETTINGS = {
    "max_prepared_transactions": "20",  # tests of PREPARE TRANSACTION
    "max_connections": "300",
    "log_statement": "none",
}


def main(session: Path) -> None:
    """Keep the server until the run is over."""
    with serve(os.environ.get(KIND, "embedded18"), session / "server") as server:
        server.save(session / "server.json")
        with locked(session / "alive"):
            pass
    shutil.rmtree(session)


@contextlib.contextmanager
def serve(kind: str, directory: Path) -> Iterator[Server]:
    """Run a server of a kind; fsync is off, for no test crashes this one."""
    match kind:
        case "embedded18" | "embedded16":
            embedded = Embedded.start(
                directory, version=int(kind[-2:]), durable=False, settings=SETTINGS
            )
        case "postgres15":
            embedded = Embedded.start(
                directory, version=15, durable=False, settings=SETTINGS, programs=DEBIAN_15
            )
        case "pgbouncer":
            embedded = Embedded.start(directory, durable=False, settings=SETTINGS)
        case _:
            sys.exit(
                f"HUDHUD_TEST_SERVER: {kind!r} is none of embedded18, embedded16, "
                "postgres15, pgbouncer"
            )
    host = str(directory)
    with embedded:
        if kind == "pgbouncer":
            with pool(directory):
                yield Server(host, PORT, host, POOLER_PORT)
        else:
            yield Server(host, PORT, host, PORT)


@contextlib.contextmanager
def pool(directory: Path) -> Iterator[None]:
    """Run PgBouncer in transaction mode in front of the server, with its socket beside."""
    users = directory / "users.txt"
    users.write_text('"hudhud" ""\n"postgres" ""\n', "utf-8")
    config = directory / "pgbouncer.ini"
    config.write_text(
        f"""
[databases]
* = host={directory} port={PORT}
[pgbouncer]
listen_addr =
unix_socket_dir = {directory}
listen_port = {POOLER_PORT}
unix_socket_mode = 0700
auth_type = trust
auth_file = {users}
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 20
ignore_startup_parameters = extra_float_digits
""",
        "utf-8",
    )
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    program = shutil.which("pgbouncer", path=path)
    if program is None:
        sys.exit("PgBouncer is not installed: run `make setup-matrix`")
    pooler = subprocess.Popen([*as_owner(directory), program, "--quiet", str(config)])
    socket = directory / f".s.PGSQL.{POOLER_PORT}"
    until(lambda: socket.exists() or pooler.poll() is not None)
    try:
        yield
    finally:
        pooler.terminate()
        pooler.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
