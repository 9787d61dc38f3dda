"""The smallest honest worker: `python -m bench.engine.control lean|bare`.

The least that a durable Python worker can do: claim in batches with the next batch fetched while
one runs, decode each payload, run one task per job, finish in batches, keep history. It renews no
lease, retries nothing, limits nothing, knows one queue, one lane, one tenant. It is no job system:
it is what one can be measured against on any machine. `lean` fences each end by the outcome's key,
`bare` gives that up and takes larger batches: the fastest that we could write.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import uvloop
from psycopg.conninfo import conninfo_to_dict

from bench.engine.board import VARIABLE, Board
from bench.engine.server import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.engine.server import Database

BATCH: Final = {"lean": 500, "bare": 1_000}
LOAD: Final = 10_000
LOOK_SECONDS: Final = 1.0


class Session(Protocol):
    """What is used of asyncpg's connection."""

    async def fetch(self, query: str, *args: object) -> list[Sequence[Any]]:
        """Run a statement and return its rows."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class Claims:
    """Claims one batch after another, from a low-water mark."""

    def __init__(self, session: Session, batch: int) -> None:
        self._session = session
        self._batch = batch
        self._mark = 0
        self._waiting: deque[tuple[int, int]] = deque()
        self._look_at = time.monotonic() + LOOK_SECONDS

    async def next(self) -> Sequence[Any] | None:
        """Return the next batch, None when there is nothing left."""
        mark = self._mark
        if time.monotonic() >= self._look_at:
            mark, self._look_at = 0, time.monotonic() + LOOK_SECONDS
        rows = await self._claim(mark)
        if not rows and mark:
            rows = await self._claim(0)
        if not rows:
            return None
        _, top, xid, xmin, *_ = rows[0]
        while self._waiting and self._waiting[0][1] <= xmin:
            self._mark = max(self._mark, self._waiting.popleft()[0])
        self._waiting.append((top, xid))
        return rows[0]

    async def _claim(self, mark: int) -> list[Sequence[Any]]:
        return await self._session.fetch("select * from control.claim($1, $2)", mark, self._batch)


async def handle(payload: dict[str, object]) -> None:
    """Do nothing with a job."""
    del payload


async def run(board: Board, text: str, done: list[int]) -> None:
    """Run one job."""
    board.hit(None)
    await handle(json.loads(text))
    done.append(1)


async def connected(dsn: str) -> Session:
    """Open a connection."""
    words = conninfo_to_dict(dsn)
    session: Session = await import_module("asyncpg").connect(  # it is not typed
        host=words.get("host"),
        port=words.get("port"),
        user=words.get("user"),
        password=words.get("password"),
        database=words.get("dbname"),
    )
    return session


async def drain(dsn: str, board: Board, kind: str) -> None:
    """Run everything that there is."""
    claiming, finishing = await connected(dsn), await connected(dsn)
    claims = Claims(claiming, BATCH[kind])
    following, finish = asyncio.ensure_future(claims.next()), None
    while (batch := await following) is not None:
        following = asyncio.ensure_future(claims.next())
        done: list[int] = []
        async with asyncio.TaskGroup() as tasks:
            for text in batch[5]:
                tasks.create_task(run(board, text, done))
        if finish is not None:
            await finish
        finish = asyncio.ensure_future(
            finishing.fetch(f"select control.finish_{kind}($1)", batch[0])
        )
    if finish is not None:
        await finish
    await claiming.close()
    await finishing.close()


def prepare(database: Database, jobs: int) -> None:
    """Make the tables and load them."""
    with database.connect() as connection:
        connection.execute(sql("control").replace("{days}", str(database.past_days)).encode())
        for low in range(1, jobs + 1, LOAD):
            connection.execute(
                sql("control_load").encode(), {"low": low, "high": min(jobs, low + LOAD - 1)}
            )


def main() -> None:
    """Work until nothing is left."""
    board = Board(Path(os.environ[VARIABLE]))
    uvloop.run(drain(os.environ["HUDHUD_DATABASE_URL"], board, sys.argv[1]))
    signal.pause()  # whoever measures us looks at us once more, and then stops us


if __name__ == "__main__":
    main()
