"""The application whose handlers write: `hudhud worker bench.engine.acting:app`.

`write` keeps a row of the business and its own success in one transaction. Of the others each is
called with a mark, and shows on the board when it begins (twice the mark) and when it is through
(one more): one effect, two commits of its own without anything around them, and nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

from bench.engine import business
from bench.engine.board import VARIABLE, Board
from hudhud.hudhud import Hudhud

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hudhud.worker.context import Context

INTEND: Final = b"insert into public.intention (mark) values (%s)"
CLOSE: Final = b"update public.intention set result = %s where mark = %s"
MAKE_INTENTION: Final = b"create table public.intention (mark bigint primary key, result text)"
RESULT: Final = "done"

app = Hudhud()
board = Board(Path(os.environ[VARIABLE])) if VARIABLE in os.environ else None


class Nobody:
    """A client of nothing: whoever calls it is answered at once."""

    async def act(self, *, key: str) -> str:
        """Do nothing."""
        del key
        return RESULT


async def open_nobody() -> AsyncGenerator[Nobody]:
    """Open nothing."""
    yield Nobody()


nobody = app.provider("nobody", open_nobody, reconcile="dedups")


@app.lifespan
async def lifespan() -> AsyncGenerator[psycopg.AsyncConnection]:
    """Keep a connection that belongs to nobody else."""
    dsn = os.environ["HUDHUD_DATABASE_URL"]
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        yield connection


def hit(mark: int | None = None) -> None:
    """Show on the board that something happened."""
    if board is not None:
        board.hit(mark)


@app.handler("write")
async def write(
    ctx: Context,
    *,
    i: int,  # noqa: ARG001
    user: str,
    template: str,  # noqa: ARG001
    pad: str,  # noqa: ARG001
) -> None:
    """Write one row of the business, and the job's success with it."""
    hit()
    async with ctx.transaction() as connection:
        await connection.execute(business.INSERT, (user,))


@app.handler("effect")
async def effect(ctx: Context, *, mark: int) -> None:
    """Act outside."""
    hit(2 * mark)
    async with ctx.effect("act", nobody) as one:
        one.result = await one.provider.act(key=one.key)
    hit(2 * mark + 1)


@app.handler("commits")
async def commits(ctx: Context, *, mark: int) -> None:
    """Commit a row and then another state of it."""
    hit(2 * mark)
    connection: psycopg.AsyncConnection = ctx.state
    await connection.execute(INTEND, (mark,))
    await connection.execute(CLOSE, (RESULT, mark))
    hit(2 * mark + 1)


@app.handler("nothing")
async def nothing(_ctx: Context, *, mark: int) -> None:
    """Do neither."""
    hit(2 * mark)
    hit(2 * mark + 1)
