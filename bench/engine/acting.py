"""The application whose handlers write: `hudhud worker bench.engine.acting:app`.

`write` keeps a row of the business and its own success in one transaction. The three others are
`act.…`: one effect, the same without it, and the two commits alone that an effect needs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.engine.board import VARIABLE, Board
from hudhud.hudhud import Hudhud

if TYPE_CHECKING:
    from hudhud.worker.context import Context

BUSINESS: Final = b"insert into public.business (note) values (%s)"
MAKE_BUSINESS: Final = b"""
create table public.business (
    id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    note text not null)"""

app = Hudhud()
board = Board(Path(os.environ[VARIABLE])) if VARIABLE in os.environ else None


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
        await connection.execute(BUSINESS, (user,))
