"""One API process of the fleet: `hudhud serve` itself, with its board."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from bench.chaos.board import Board
from bench.chaos.place import BOARD, HOST
from hudhud.cli import serve as command

if TYPE_CHECKING:
    from bench.chaos.board import Slot
    from bench.chaos.place import Place

_LOOK_SECONDS: Final = 0.02


def serve(place: Place, number: int, *, life_line: int) -> None:
    """Serve until SIGTERM, or until the nursery is gone.

    Args:
        place: Where.
        number: Of this process's slot on the board.
        life_line: A file descriptor that ends when nobody is left to end this process.
    """
    slot = Board(place.directory / BOARD, place.slots).slot(number)
    slot.clear()
    port = place.api_port(number)
    for watch in (_die_alone, _say_ready):
        threading.Thread(target=watch, args=(life_line, port, slot), daemon=True).start()
    command.serve(host=HOST, port=port, database_url=place.dsn)


def _die_alone(life_line: int, _: int, __: Slot) -> None:
    os.read(life_line, 1)
    os._exit(1)


def _say_ready(_: int, port: int, slot: Slot) -> None:
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                slot.be_ready(uuid4())
                return
        time.sleep(_LOOK_SECONDS)
