"""The application whose relay is measured: `hudhud worker bench.engine.routing:app --queues none`.

Its worker runs nothing but the relay: the jobs that this makes wait in a queue that it does not
serve. The board shows how far it has come: mark 0 when it begins, then how many events are routed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bench.engine.board import VARIABLE, Board
from bench.engine.listening import TYPE, Noted
from hudhud.hudhud import Hudhud
from hudhud.telemetry import subscribe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudhud.domain.event import Event

SUBSCRIPTION = "unserved"
QUEUE = "unserved"

app = Hudhud()
app.event(TYPE)(Noted)


@app.on(TYPE, name=SUBSCRIPTION, queue=QUEUE)
async def unserved(_ctx: object, _event: Event) -> None:
    """Never called."""


class Progress:
    """Writes on the board what the relay tells."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._routed = 0

    def __call__(self, event: str, fields: Mapping[str, object]) -> None:
        """Take note of a step."""
        match event:
            case "worker.started":  # in the same turn of its loop as the relay
                self._board.hit(0)
            case "relay.routed":
                self._routed += cast("int", fields["events"])
                self._board.hit(self._routed)
            case _:
                pass


if VARIABLE in os.environ:
    subscribe(Progress(Board(Path(os.environ[VARIABLE]))))
