"""The demo: accepted at once, a worker killed in the middle, each result served once."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import psycopg
import uvicorn

from examples.documents.app import add_owner, app, set_up
from examples.documents.pdf import make_pdf
from examples.documents.web import create_app
from hudhud.store import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Sequence

ROOT: Final = Path(__file__).parents[2]
SAMPLES: Final = Path(__file__).parent / "samples"
LEASE_SECONDS: Final = 2
DEADLINE_SECONDS: Final = 60.0
LONG_PAGES: Final = 500
LONG, BROKEN, GIVEN_AWAY = "long.pdf", "broken.pdf", "given away.txt"
ACCEPTED, NOT_FOUND = 202, 404
FINAL: Final = {"analysed", "refused"}


@dataclass(slots=True)
class Report:
    """What the demo saw. `doubled` are analyses beyond one per document, and notices likewise."""

    documents: int = 0
    analysed: int = 0
    refused: int = 0
    kills: int = 0
    rescued: int = 0
    doubled: int = 0
    notices: int = 0
    notices_doubled: int = 0
    foreign_reads: int = 0
    foreign_reads_refused: int = 0
    retries_of_broken: int = 0
    ok: bool = False

    def as_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return asdict(self)


def run(paths: Sequence[Path], say: Callable[[str], None]) -> Report:
    """Play the demo on the database that hudhud is configured for.

    Args:
        paths: Real files, PDF or text; none: the two samples.
        say: Gets each line for people.
    """
    migrate.apply(app.database_url)
    with psycopg.connect(app.database_url, autocommit=True) as connection, served() as url:
        set_up(connection)
        play = _Demo(connection, url, say)
        try:
            play.accept(paths or sorted(SAMPLES.iterdir()))
            play.kill_a_worker()
            with _worker() as process:
                play.wait_for_the_end(process)
            play.judge()
        except TimeoutError as error:
            say(f"FAILED: {error}")
        return play.report


class _Demo:
    def __init__(
        self, connection: psycopg.Connection, url: str, say: Callable[[str], None]
    ) -> None:
        self._connection = connection
        self._say = say
        self._url = url
        self._owner = self._client("parvin")
        self._other = self._client("oksana")
        self._ids: dict[str, str] = {}
        self.report = Report()

    def accept(self, paths: Sequence[Path]) -> None:
        """Upload everything; each is answered before anybody has looked at it."""
        line = "This line is one of very many, and all of them together take a while to read."
        own = {
            LONG: make_pdf([[f"{line} Page {n}."] * 40 for n in range(LONG_PAGES)]),
            BROKEN: make_pdf([["torn"]])[:120],
            GIVEN_AWAY: b"This document gets another owner before it is analysed.",
        }
        for name, content in own.items():
            self._upload(name, content)
        for path in paths:
            self._upload(_unused(path.name, self._ids), path.read_bytes())
        self._connection.execute(
            "update documents.document set owner = 'oksana' where id = %s",
            (self._ids[GIVEN_AWAY],),
        )

    def _upload(self, name: str, content: bytes) -> None:
        self.report.documents += 1
        started = time.monotonic()
        answer = self._owner.post("/documents", params={"file_name": name}, content=content)
        took = (time.monotonic() - started) * 1000
        if answer.status_code == ACCEPTED:
            self._ids[name] = answer.json()["id"]
            self._say(f"accepted  {name}: {answer.status_code} in {took:.0f} ms")
        else:
            # A predictable mistake: it is told at once, and no job is made for it.
            self.report.refused += 1
            self._say(f"refused   {name}: {answer.status_code} {answer.json()['detail']}")

    def kill_a_worker(self) -> None:
        """Kill a worker, without warning, while it reads the long document."""
        with _worker() as process:
            self._until(lambda: self._state(LONG) == "analysing", process, "the analysis to begin")
            self._read_as_another(LONG)
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.report.kills += 1
        self._say(f"killed    the worker (SIGKILL) while {LONG} is {self._state(LONG)}")

    def wait_for_the_end(self, process: subprocess.Popen[bytes]) -> None:
        """Let another worker take over; tell each state as it changes."""
        told: dict[str, str] = {}

        def all_ended() -> bool:
            for name in self._ids:
                state = self._state(name)
                if told.get(name) != state:
                    told[name] = state
                    self._say(f"{state.ljust(9)} {name}")
            return set(told.values()) <= FINAL

        self._until(all_ended, process, "every document to be analysed or refused")
        analysed = sum(state == "analysed" for state in told.values())
        self._until(lambda: len(self._told()) >= analysed, process, "the owner to be told of each")

    def judge(self) -> None:
        """Read every result as its owner and as another, and the database's own record."""
        report = self.report
        for name in self._ids:
            report.analysed += self._state(name) == "analysed"
            report.refused += self._state(name) == "refused"
            if self._state(name) == "analysed":
                found = self._owner.get(f"/documents/{self._ids[name]}/result")
                found.raise_for_status()
                self._say(f"result    {name}: {found.json()}")
                self._read_as_another(name)
        ids = list(self._ids.values())
        report.doubled = self._count(
            "select count(*) - count(distinct document_id) from documents.analysis"
            " where document_id = any (%s::uuid[])",
            ids,
        )
        report.rescued = self._count(
            "select count(*) from documents.document d join hudhud.outcome_all o using (job_id)"
            " where o.outcome = 'lost' and d.id = any (%s::uuid[])",
            ids,
        )
        report.retries_of_broken = self._count(
            "select count(*) from documents.document d join hudhud.outcome_all o using (job_id)"
            " where o.outcome = 'retry' and d.id = any (%s::uuid[])",
            [self._ids[BROKEN]],
        )
        told = self._told()
        report.notices, report.notices_doubled = len(told), len(told) - len(set(told))
        gone = self._owner.get(f"/documents/{self._ids[GIVEN_AWAY]}").status_code
        report.ok = (
            report.analysed + report.refused == report.documents
            and report.analysed > 0
            and self._state(BROKEN) == "refused"
            and self._state(LONG) == "analysed"
            and self._reason(GIVEN_AWAY) == "owner_changed"
            and gone == NOT_FOUND
            and report.rescued >= 1
            and report.doubled == report.notices_doubled == 0
            and report.notices == report.analysed
            and report.retries_of_broken == 0
            and report.foreign_reads == report.foreign_reads_refused > 0
        )
        self._say(
            f"{'ok' if report.ok else 'FAILED'}: {report.analysed} analysed,"
            f" {report.refused} refused, {report.kills} worker killed, {report.rescued} rescued,"
            f" {report.doubled} doubled, {report.notices} notices to the owner,"
            f" {report.foreign_reads_refused} of"
            f" {report.foreign_reads} foreign reads refused"
        )

    def _told(self) -> list[str]:
        """Return the documents of this run of which the owner was told, as often as that was."""
        answer = self._owner.get("/notices")
        answer.raise_for_status()
        ours = set(self._ids.values())
        return [one["document_id"] for one in answer.json() if one["document_id"] in ours]

    def _client(self, name: str) -> httpx.Client:
        token = add_owner(self._connection, name)
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self._url, headers=headers, timeout=30, trust_env=False)

    def _read_as_another(self, name: str) -> None:
        for path in ("", "/result"):
            answer = self._other.get(f"/documents/{self._ids[name]}{path}")
            self.report.foreign_reads += 1
            self.report.foreign_reads_refused += answer.status_code == NOT_FOUND

    def _state(self, name: str) -> str:
        return str(self._column("state", name))

    def _reason(self, name: str) -> str:
        return str(self._column("reason", name))

    def _column(self, column: str, name: str) -> object:
        row = self._connection.execute(
            f"select {column} from documents.document where id = %s".encode(),  # noqa: S608 - two names of ours
            (self._ids[name],),
        ).fetchone()
        assert row is not None
        return row[0]

    def _count(self, query: str, ids: Sequence[str]) -> int:
        row = self._connection.execute(query.encode(), (ids,)).fetchone()
        assert row is not None
        return int(row[0])

    def _until(self, is_so: Callable[[], bool], worker: subprocess.Popen[bytes], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not is_so():
            if worker.poll() is not None or time.monotonic() > deadline:
                message = f"waited for {what} in vain"
                raise TimeoutError(message)
            time.sleep(0.02)


def _unused(name: str, taken: Container[str]) -> str:
    """Return a name that no other document of this run has: two paths may end alike."""
    names = itertools.chain([name], (f"{name} ({number})" for number in itertools.count(2)))
    return next(one for one in names if one not in taken)


@contextmanager
def served() -> Generator[str]:
    """Serve the application's HTTP face from this process, on a free port of loopback."""
    config = uvicorn.Config(create_app(), host="127.0.0.1", port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            message = "the HTTP face did not start"
            raise RuntimeError(message)
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def _worker() -> Generator[subprocess.Popen[bytes]]:
    """Run a worker as a process of its own; it is told to stop at the end, if it still runs."""
    environment = {
        **os.environ,
        "HUDHUD_DATABASE_URL": app.database_url,
        "HUDHUD_WORKER_LEASE_SECONDS": str(LEASE_SECONDS),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    command = [sys.executable, "-m", "hudhud.cli.main", "worker", "examples.documents.app:app"]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        try:
            yield process
        finally:
            process.terminate()
