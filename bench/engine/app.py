"""The application that is measured: `hudhud worker bench.engine.app:app`.

One async handler that does nothing but show on the board of the measuring process that it was
called. BENCH_BOARD says where that is.
"""

from __future__ import annotations

import os
from pathlib import Path

from bench.engine.board import VARIABLE, Board
from hudhud.hudhud import Hudhud

app = Hudhud()
board = Board(Path(os.environ[VARIABLE])) if VARIABLE in os.environ else None


@app.handler("noop")
async def noop(
    _ctx: object,
    *,
    i: int,  # noqa: ARG001
    user: str,  # noqa: ARG001
    template: str,  # noqa: ARG001
    pad: str,  # noqa: ARG001
    mark: int | None = None,
) -> None:
    """Count the call."""
    if board is not None:
        board.hit(mark)
