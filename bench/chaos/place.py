"""Where a process of a run finds its world."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
BOARD: Final = "board"
TELEMETRY: Final = "telemetry.jsonl"


@dataclass(frozen=True, slots=True)
class Place:
    """What every process that the nursery bears is told.

    Attributes:
        directory: Of the run.
        dsn: The database, as this process reaches it: through the proxy.
        slots: How many processes have a slot on the board.
        ledger_port: Where the ledger serves.
        api_ports: Where the API processes serve, by their slots.
        relays: Slots of workers without queues, which only route events.
        tooth: Name of a fault that is planted in these processes; "" for none.
    """

    directory: Path
    dsn: str
    slots: int
    ledger_port: int = 0
    api_ports: tuple[tuple[int, int], ...] = ()
    relays: tuple[int, ...] = ()
    tooth: str = ""

    def text(self) -> str:
        """Return it as one word of a command line; `of` reads it."""
        return json.dumps({**dataclasses.asdict(self), "directory": str(self.directory)})

    @classmethod
    def of(cls, text: str) -> Place:
        """Read what `text` returned."""
        fields = json.loads(text)
        fields["directory"] = Path(fields["directory"])
        fields["relays"] = tuple(fields["relays"])
        fields["api_ports"] = tuple((slot, port) for slot, port in fields["api_ports"])
        return cls(**fields)

    def api_port(self, slot: int) -> int:
        """Return where the API process of a slot serves."""
        return dict(self.api_ports)[slot]
