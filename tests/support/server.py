"""The one PostgreSQL server of a test run, and the databases on it.

A run has a directory. The first test that needs a server starts its keeper (keeper.py) there; all
workers of pytest-xdist share it. The run holds a lock on `alive` as long as it lives, and the
keeper stops the server when it gets that lock: after the run, however the run ended.

HUDHUD_TEST_SERVER chooses the server: embedded18 (default), embedded16, postgres15 (Debian's
programs), or pgbouncer (embedded18 reached through PgBouncer in transaction mode).
"""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import urllib.parse
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from tests.support.wait import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SESSION = "HUDHUD_TEST_SESSION"  # environment: the run's directory
KIND = "HUDHUD_TEST_SERVER"
TEMPLATE = "hudhud_template"


@dataclass(frozen=True, slots=True)
class Server:
    """Where the server of the run listens.

    `host` and `port` are PostgreSQL's own; `route_host` and `route_port` are what tests connect
    to, PgBouncer's when the run goes through it.
    """

    host: str
    port: int
    route_host: str
    route_port: int

    def dsn(self, database: str) -> str:
        """Return the DSN that tests use: role hudhud, the database's owner and no superuser."""
        return _dsn("hudhud", database, (self.route_host, self.route_port))

    def direct(self, dsn: str) -> str:
        """Return a DSN of the same database past PgBouncer: for LISTEN and migrations."""
        return _dsn("hudhud", database_of(dsn), (self.host, self.port))

    def admin(self, dsn: str | None = None) -> str:
        """Return a superuser's direct DSN, of the same database or of `postgres`."""
        return _dsn("postgres", database_of(dsn) if dsn else "postgres", (self.host, self.port))

    def create(self, database: str, *, template: str = TEMPLATE) -> str:
        """Make a database that hudhud owns, from a template; return its DSN."""
        statement = sql.SQL("create database {} template {} owner hudhud strategy file_copy")
        with psycopg.connect(self.admin(), autocommit=True) as connection:
            connection.execute(statement.format(sql.Identifier(database), sql.Identifier(template)))
        return self.dsn(database)

    def drop(self, database: str) -> None:
        """Drop a database, ending whatever is still connected to it."""
        statement = sql.SQL("drop database if exists {} with (force)")
        with psycopg.connect(self.admin(), autocommit=True) as connection:
            connection.execute(statement.format(sql.Identifier(database)))

    def save(self, path: Path) -> None:
        """Write this where `join` finds it; the file is whole as soon as it is there."""
        unfinished = path.with_suffix(".new")
        unfinished.write_text(json.dumps(asdict(self)), "utf-8")
        unfinished.replace(path)


def database_of(dsn: str) -> str:
    """Return the database's name in a DSN of ours."""
    return urllib.parse.urlsplit(dsn).path.removeprefix("/")


def join(session: Path) -> Server:
    """Return the run's server, started and with its template made by whoever comes first."""
    with locked(session / "start.lock"):
        state = session / "server.json"
        if not state.exists():
            _start_keeper(session, state)
        server = Server(**json.loads(state.read_text("utf-8")))
        _make_template(server, session / "template")
    return server


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the exclusive lock of a file, waiting for it."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start_keeper(session: Path, state: Path) -> None:
    log = session / "keeper.log"
    with log.open("ab") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.support.keeper", str(session)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C ends the run; the keeper then follows by itself
        )
    until(lambda: state.exists() or keeper.poll() is not None, seconds=120)
    assert state.exists(), f"the test server did not start:\n{log.read_text('utf-8')}"
    keeper.returncode = 0  # it outlives this process on purpose: no warning that it still runs


def _make_template(server: Server, done: Path) -> None:
    if done.exists():
        return
    from hudhud.store import migrate  # noqa: PLC0415 - a broken migration must not stop unit tests

    server.drop(TEMPLATE)
    migrate.apply(server.direct(server.create(TEMPLATE, template="template1")))
    done.touch()


def _dsn(role: str, database: str, place: tuple[str, int]) -> str:
    host = urllib.parse.quote(place[0], safe="/")
    return f"postgresql://{role}@/{database}?host={host}&port={place[1]}"
