"""One worker of the fleet: the engine's own, shown on its board, its telemetry in a file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import uvloop

from bench.chaos import armed
from bench.chaos.application import WORKED_QUEUES, Chores
from bench.chaos.board import Board, Field
from bench.chaos.place import BOARD, TELEMETRY
from hudhud import telemetry
from hudhud.config import WorkerConfig
from hudhud.worker.link import Link
from hudhud.worker.worker import Addresses, Worker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench.chaos.board import Slot
    from bench.chaos.place import Place
    from bench.chaos.points import Action
    from hudhud.store.call import Call

STOP_SECONDS: Final = 3.0
_QUIET: Final = frozenset({"run.finished", "claimer.busy"})
_SHOWN: Final = {"claim": Field.CLAIMING, "finish": Field.FINISHING}


def work(place: Place, number: int, *, lease_seconds: int, life_line: int) -> None:
    """Work until SIGTERM, or until the nursery is gone.

    Args:
        place: Where.
        number: Of this worker's slot on the board.
        lease_seconds: Of its claims.
        life_line: A file descriptor that ends when nobody is left to end this process.

    Raises:
        psycopg.OperationalError: The database is away at the start.
    """
    slot = Board(place.directory / BOARD, place.slots).slot(number)
    slot.clear()
    teller = _Teller(place.directory / TELEMETRY, slot, number)
    telemetry.subscribe(teller)
    armed.obey(slot, teller.tell_fired)
    _show_statements(slot)
    config = WorkerConfig(
        queues=() if number in place.relays else WORKED_QUEUES,
        concurrency=16,
        threads=4,
        connections=4,
        lease_seconds=lease_seconds,
        stop_seconds=STOP_SECONDS,
    )
    chores = Chores(slot, ledger_port=place.ledger_port, number=number)
    uvloop.run(_work(chores, place.dsn, config, life_line=life_line))


async def _work(chores: Chores, dsn: str, config: WorkerConfig, *, life_line: int) -> None:
    worker = Worker(chores.app, Addresses(dsn, dsn), config)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, worker.ask_to_stop)
    loop.add_reader(life_line, os._exit, 1)
    await worker.run()


class _Teller:
    """Writes each event as one line, whole or not at all, so that a kill tears none."""

    def __init__(self, path: Path, slot: Slot, number: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._slot = slot
        self._number = number

    def __call__(self, event: str, fields: Mapping[str, object]) -> None:
        if event == "worker.started":
            worker_id = fields["worker_id"]
            assert isinstance(worker_id, UUID)
            self._slot.be_ready(worker_id)
        if event not in _QUIET:
            self._tell(event, **fields)

    def tell_fired(self, point: str, action: Action) -> None:
        """Write down that a failpoint does something now."""
        self._tell("failpoint.fired", point=point, action=action)

    def _tell(self, event: str, **fields: object) -> None:
        told = {"event": event, "worker": self._number, **fields}
        os.write(self._file, json.dumps(told, default=repr).encode() + b"\n")


def _show_statements(slot: Slot) -> None:
    """Show on the board when a claim or a finish is at the server."""
    plain = Link.run

    async def run(self: Link, call: Call[Any]) -> Any:  # noqa: ANN401 - whatever the call's is
        field = _SHOWN.get(call.function)
        if field is None:
            return await plain(self, call)
        with slot.during(field):
            answer = await plain(self, call)
        if field is Field.FINISHING:
            slot.add(Field.SETTLED, answer.settled)
        elif answer is not None:
            slot.add(Field.CLAIMS, 1)
        return answer

    setattr(Link, "run", run)  # noqa: B010 - watched from outside; type checkers mind the plain form
