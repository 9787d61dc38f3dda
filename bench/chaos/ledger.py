"""The world outside: a service in a process of its own that acts by key and keeps its own journal.

It speaks a line of JSON each way, a connection for as many calls as its client likes:

    {"act": key, "who": {…}}  →  {"entry": n}        it is in the journal before that is said
    {"find": key}             →  {"entries": [n, …]}
    any call                  →  {"later": seconds}   nothing was done

It behaves as services do, for a share of the calls that a seed decides: it acts and does not
answer, or hangs up, or answers late, or acts late; it hangs up before it has acted; it asks for
patience. When it deduplicates, a key is acted upon once and its entry is the answer to every
repeat; when it does not, every call that it accepts is an act.

    python -m bench.chaos.ledger JOURNAL SEED {dedups|repeats} SHARE LATE_SECONDS
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvloop

if TYPE_CHECKING:
    from collections.abc import Mapping

_ORDERS: Final = 0
_NEWS: Final = 1
PATIENCE_SECONDS: Final = 0.1


class Manner(StrEnum):
    """How it takes a call."""

    WELL = "well"
    DROPS = "drops"  # acts, and hangs up instead of an answer
    SILENT = "silent"  # acts, and says nothing
    ANSWERS_LATE = "answers_late"
    ACTS_LATE = "acts_late"
    HANGS_UP = "hangs_up"  # before it has acted
    REFUSES = "refuses"  # for now, and says so


_BAD: Final = (
    *[Manner.DROPS] * 4,
    Manner.SILENT,
    *[Manner.ANSWERS_LATE] * 2,
    Manner.ACTS_LATE,
    Manner.HANGS_UP,
    Manner.REFUSES,
)


class Ledger:
    """What it did, in memory and in the journal; and how it takes the next call."""

    def __init__(self, journal: Path, seed: int, *, dedups: bool, share: float) -> None:
        """Open the journal.

        Args:
            journal: A new file; one line for each act and each repeat, in their order.
            seed: Of its manners: the same for the n-th call of a key in each run of the seed.
            dedups: Whether a key is acted upon once.
            share: Of calls that it does not take well.
        """
        self._file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._seed = seed
        self._dedups = dedups
        self._share = share
        self._calls: Counter[str] = Counter()
        self._entries: dict[str, list[int]] = {}
        self._amount = 0

    def manner(self, key: str) -> Manner:
        """Return how the next call of a key is taken."""
        self._calls[key] += 1
        chance = random.Random(f"{self._seed} {key} {self._calls[key]}")  # noqa: S311 - no secret
        return chance.choice(_BAD) if chance.random() < self._share else Manner.WELL

    def act(self, key: str, who: Mapping[str, object]) -> int:
        """Act, and return the number of the entry, which is on the disk."""
        entries = self._entries.setdefault(key, [])
        is_repeat = self._dedups and bool(entries)
        if not is_repeat:
            self._amount += 1
            entries.append(self._amount)
        line = {"entry": entries[-1], "key": key, "at": time.monotonic(), "is_repeat": is_repeat}
        os.write(self._file, json.dumps({**line, "who": who}).encode() + b"\n")
        os.fdatasync(self._file)
        return entries[-1]

    def find(self, key: str) -> list[int]:
        """Return the entries of a key."""
        return self._entries.get(key, [])


class Counterpart:
    """Serves one client at a time on each connection."""

    def __init__(self, ledger: Ledger, late_seconds: float) -> None:
        self._ledger = ledger
        self._late_seconds = late_seconds

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer calls until either side has had enough."""
        # A client that is killed hangs up in the middle of anything.
        with suppress(ConnectionError):
            while (line := await reader.readline()).endswith(b"\n"):
                answer = await self._answer(json.loads(line), reader)
                if answer is None:
                    break
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        writer.close()

    async def _answer(
        self, call: Mapping[str, Any], reader: asyncio.StreamReader
    ) -> Mapping[str, object] | None:
        if "find" in call:
            return {"entries": self._ledger.find(call["find"])}
        manner = self._ledger.manner(call["act"])
        if manner is Manner.HANGS_UP:
            return None
        if manner is Manner.REFUSES:
            return {"later": PATIENCE_SECONDS}
        if manner is Manner.ACTS_LATE:
            await asyncio.sleep(self._late_seconds)
        entry = self._ledger.act(call["act"], call["who"])
        if manner is Manner.ANSWERS_LATE:
            await asyncio.sleep(self._late_seconds)
        elif manner is Manner.SILENT:
            await reader.read()  # until the client has had enough
        return None if manner in (Manner.DROPS, Manner.SILENT) else {"entry": entry}


async def serve(counterpart: Counterpart) -> None:
    """Tell the port, and serve until the input ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(_ORDERS, "rb", buffering=0)
    )
    listener = await asyncio.start_server(counterpart.serve, "127.0.0.1", 0)
    os.write(_NEWS, b"%d\n" % listener.sockets[0].getsockname()[1])
    await reader.read()


def main() -> None:
    """Read the arguments and serve."""
    journal, seed, habit, share, late_seconds = sys.argv[1:]
    ledger = Ledger(Path(journal), int(seed), dedups=habit == "dedups", share=float(share))
    uvloop.run(serve(Counterpart(ledger, float(late_seconds))))


if __name__ == "__main__":
    main()
