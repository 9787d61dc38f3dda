"""A pooler in transaction mode, as small as it can be: one server connection, lent per transaction.

PgBouncer is there in the matrix only; what a client must know of such a pooler is this: another
server process than it thinks, no state of its own on it, and nothing is heard between transactions.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

_STARTUP = struct.Struct("!ii")
_HEAD = struct.Struct("!ci")
_SSL_REQUEST = 80877103
_PROTOCOL = 196608
# AuthenticationOk, a process id and key of its own, ReadyForQuery.
_WELCOME = (
    b"R\0\0\0\x08\0\0\0\0"
    b"S\0\0\0\x16server_version\x0018\0"
    b"S\0\0\0\x19client_encoding\0UTF8\0"
    b"K\0\0\0\x0c\0\0\0\x01\0\0\0\x02"
    b"Z\0\0\0\x05I"
)


class Pooler:
    """Lends one server connection to whichever client is in a transaction."""

    def __init__(self, server: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self._reader, self._writer = server
        self._turn = asyncio.Lock()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _greet(reader, writer)
            while True:
                first = await _message(reader)
                async with self._turn:
                    await self._lend(first, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _lend(
        self, message: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass messages to and fro until the server is idle outside a transaction."""
        while True:
            if message[:1] == b"X":
                raise ConnectionResetError
            self._writer.write(message)
            if message[:1] in b"QS" and await self._answer(writer):
                return
            message = await _message(reader)

    async def _answer(self, writer: asyncio.StreamWriter) -> bool:
        while True:
            message = await _message(self._reader)
            writer.write(message)
            if message[:1] == b"Z":
                await writer.drain()
                return message[-1:] == b"I"


@asynccontextmanager
async def pooler(socket: Path, *, database: str, user: str) -> AsyncGenerator[str]:
    """Run a pooler before the server at a socket; yield its DSN."""
    server = await asyncio.open_unix_connection(socket)
    await _log_in(server, database, user)
    listener = await asyncio.start_server(Pooler(server).serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener:
        yield f"postgresql://{user}@127.0.0.1:{port}/{database}?sslmode=disable&gssencmode=disable"
    server[1].close()


async def _log_in(
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter], database: str, user: str
) -> None:
    parameters = f"user\0{user}\0database\0{database}\0\0".encode()
    server[1].write(_STARTUP.pack(8 + len(parameters), _PROTOCOL) + parameters)
    while (await _message(server[0]))[:1] != b"Z":
        continue


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    length, code = _STARTUP.unpack(await reader.readexactly(8))
    assert code != _SSL_REQUEST
    await reader.readexactly(length - 8)
    writer.write(_WELCOME)
    await writer.drain()


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    _, length = _HEAD.unpack(head)
    return head + await reader.readexactly(length - 4)
