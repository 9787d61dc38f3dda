"""How handlers reach the ledger: a connection for each call, and a last check before the bytes."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from hudhud import TryLater

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from hudhud import Context, Effect

HOST: Final = "127.0.0.1"
REPLY_SECONDS: Final = 0.8  # what a client waits for an answer


class LedgerClient:
    """Acts and finds by key; for plain handlers under the names with `_now`."""

    def __init__(
        self,
        port: int,
        *,
        worker: int = 0,
        checking: Callable[[], AbstractContextManager[None]] = nullcontext,
        sending: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Make one; each call opens a connection of its own.

        Args:
            port: The ledger's.
            worker: A number that the journal is to name the caller by.
            checking: Entered before the last check,
            sending: and between that and the write: the gap that no check can close.
        """
        self._port = port
        self._worker = worker
        self._checking = checking
        self._sending = sending

    async def act(self, ctx: Context, effect: Effect[LedgerClient], *, gap_ms: int) -> int:
        """Act, and return the number of the entry.

        Args:
            ctx: Who asks.
            effect: The effect that this is the call of.
            gap_ms: How long to stand still before the last check, and again before the write.

        Raises:
            NotSent, LeaseLostError: The last check found that it is too late.
            TryLater: Nothing was done.
            OSError: Nobody knows.
        """
        reader, writer = await asyncio.open_connection(HOST, self._port)
        try:
            with self._checking():
                await asyncio.sleep(gap_ms / 1000)
            with self._sending():
                line = self._checked(ctx, effect)
                await asyncio.sleep(gap_ms / 1000)
                writer.write(line)
            async with asyncio.timeout(REPLY_SECONDS):
                return _entry(await reader.readline())
        finally:
            writer.close()

    def act_now(self, ctx: Context, effect: Effect[LedgerClient], *, gap_ms: int) -> int:
        """As `act`, from a thread."""
        with socket.create_connection((HOST, self._port)) as plug:
            with self._checking():
                time.sleep(gap_ms / 1000)
            with self._sending():
                line = self._checked(ctx, effect)
                time.sleep(gap_ms / 1000)
                plug.sendall(line)
            plug.settimeout(REPLY_SECONDS)
            with plug.makefile("rb") as reader:
                return _entry(reader.readline())

    async def find(self, key: str) -> int | None:
        """Return the first entry of a key; None when it was not acted upon."""
        reader, writer = await asyncio.open_connection(HOST, self._port)
        try:
            writer.write(_find(key))
            async with asyncio.timeout(REPLY_SECONDS):
                return _found(await reader.readline())
        finally:
            writer.close()

    def find_now(self, key: str) -> int | None:
        """As `find`, from a thread."""
        with socket.create_connection((HOST, self._port), REPLY_SECONDS) as plug:
            plug.sendall(_find(key))
            with plug.makefile("rb") as reader:
                return _found(reader.readline())

    def _checked(self, ctx: Context, effect: Effect[LedgerClient]) -> bytes:
        """Check for the last time, and return what is to be written."""
        # Taken before: who is frozen right behind the check is frozen in the gap.
        asked_at = time.monotonic()
        effect.check()
        who = {
            "worker": self._worker,
            "pid": os.getpid(),
            "job_id": str(ctx.job_id),
            "run": ctx.run,
            "asked_at": asked_at,
        }
        return json.dumps({"act": effect.key, "who": who}).encode() + b"\n"


def _find(key: str) -> bytes:
    return json.dumps({"find": key}).encode() + b"\n"


def _found(line: bytes) -> int | None:
    entries = _answer(line)["entries"]
    return int(entries[0]) if entries else None


def _entry(line: bytes) -> int:
    answer = _answer(line)
    if "later" in answer:
        raise TryLater(after_seconds=answer["later"])
    return int(answer["entry"])


def _answer(line: bytes) -> Mapping[str, Any]:
    if not line.endswith(b"\n"):
        message = "the ledger hung up"
        raise ConnectionError(message)
    answer: dict[str, Any] = json.loads(line)
    return answer
