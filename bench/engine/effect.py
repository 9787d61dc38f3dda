"""What an effect costs beside the call: commits, and milliseconds."""

from __future__ import annotations

import random
from statistics import median
from typing import TYPE_CHECKING, Final

from bench.engine.acting import MAKE_INTENTION
from bench.engine.beside import medians
from bench.engine.measurement import Control, Measurement, Target, middle
from bench.engine.process import worker
from bench.engine.server import sql
from hudhud.client import Client
from hudhud.domain.job import NewJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.engine.process import Process
    from bench.engine.server import Connection, Database, Server
    from bench.engine.sizes import Size

KINDS: Final[Sequence[str]] = ("effect", "commits", "nothing")
CONCURRENCY: Final = 100
COUNTED: Final = 5  # jobs of each kind; each takes the same number of commits
WARM: Final = 10  # psycopg prepares a statement after five
COMMITS_MAX: Final = 2


def measure(server: Server, size: Size, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Run jobs with an effect and without, one after another, in turn and shuffled."""
    with server.database() as database, database.connect() as connection:
        connection.execute(MAKE_INTENTION)
        with worker(database.dsn, concurrency=CONCURRENCY, application="acting") as process:
            database.wait_for_worker()
            probe = Probe(database, connection, process)
            for _ in range(WARM):
                probe.took()
            took = [probe.took() for _ in range(size.effects)]
            connection.execute(sql("count_commits").encode())
            counted = [probe.committed() for _ in range(COUNTED)]
    ours, bare = ([one[kind] for one in took] for kind in ("effect", "commits"))
    say(f"{median(ours):.2f} ms, two bare commits {median(bare):.2f} ms")
    yield middle(
        "effect_ms",
        "ms",
        medians(ours),
        against=Control("two bare commits", medians(bare)),
        note="From entering ctx.effect() until it is left, around a call that returns at once,"
        " against one INSERT and one UPDATE that are committed as they are.",
    )
    yield middle(
        "effect_commits",
        "commits",
        [one["effect"] - one["nothing"] for one in counted],
        target=Target("value", "<=", COMMITS_MAX),
        note="What a job with one effect commits more than the same job without.",
        detail={kind: median(one[kind] for one in counted) for kind in ("effect", "nothing")},
    )


class Probe:
    """Runs one job of each kind at a time."""

    def __init__(self, database: Database, connection: Connection, process: Process) -> None:
        self._database = database
        self._connection = connection
        self._process = process
        self._sent = 0

    def took(self) -> dict[str, float]:
        """Return, by kind, how many milliseconds a handler was at it."""
        marks = {kind: self._run(kind) for kind in self._kinds()}
        at = self._process.board.starts()
        return {kind: 1e3 * (at[2 * mark + 1] - at[2 * mark]) for kind, mark in marks.items()}

    def committed(self) -> dict[str, float]:
        """Return, by kind, how many transactions wrote something about a job."""
        found: dict[str, float] = {}
        for kind in self._kinds():
            self._connection.execute("truncate public.seen")
            self._run(kind)
            row = self._connection.execute("select count(distinct xid) from public.seen").fetchone()
            assert row is not None
            found[kind] = row[0]
        return found

    def _kinds(self) -> list[str]:
        kinds = [*KINDS]
        random.Random(self._sent).shuffle(kinds)  # noqa: S311 - an order, not a secret
        return kinds

    def _run(self, kind: str) -> int:
        """Run one job to its end; return its mark."""
        mark = self._sent
        self._sent += 1
        Client().enqueue(self._connection, NewJob(kind, {"mark": mark}))
        self._process.wait_for(2 * self._sent)
        self._database.wait_until_drained()
        return mark
