"""The application that listens: `hudhud worker bench.engine.listening:app`.

One subscription, which does nothing but show on the board that it was called.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.engine.board import VARIABLE, Board
from hudhud.drivers import psycopg as driver
from hudhud.hudhud import Hudhud
from hudhud.store import events

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

    from hudhud.domain.event import Event

TYPE: Final = "thing.noted"

app = Hudhud()
board = Board(Path(os.environ[VARIABLE])) if VARIABLE in os.environ else None


@app.event(TYPE)
class Noted:
    """What an event carries: as much as a job of the other benches."""

    i: int
    user: str
    template: str
    pad: str
    mark: int | None = None


@app.on(TYPE, name="listener")
async def listen(_ctx: object, event: Event) -> None:
    """Count the call."""
    if board is not None:
        board.hit(event.payload.get("mark"))


def announce(connection: psycopg.Connection[tuple[Any, ...]], application: Hudhud = app) -> None:
    """Make an application's types and subscriptions known, as its worker does when it starts."""
    outbox = application.outbox
    types, wanted = outbox.announced_types(), outbox.announced_subscriptions()
    driver.run(connection, events.announce_events(types, wanted))


def announce_strangers(
    connection: psycopg.Connection[tuple[Any, ...]], like: Mapping[str, object], amount: int
) -> None:
    """Make subscriptions known that want other events."""
    others = [
        {**like, "name": f"stranger {number}", "event_type": f"other.{number}"}
        for number in range(amount)
    ]
    driver.run(connection, events.announce_events([], others))
