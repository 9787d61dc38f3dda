"""A TCP proxy before the server that cuts a connection at the worst moment."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from tests.support.server import database_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.support.server import Server

Cut = Literal["request", "reply"]
_CHUNK_BYTES = 1 << 20
_READY = b"Z\0\0\0\x05"  # the server has done what it was asked


class Proxy:
    """Passes everything on, until it is armed.

    Attributes:
        url: Where clients connect to.
        cuts: How many connections were cut.
    """

    def __init__(self, socket: str) -> None:
        self.url = ""
        self.cuts = 0
        self._socket = socket
        self._armed: tuple[bytes, Cut] | None = None

    def arm(self, words: str, *, cut: Cut) -> None:
        """Cut the next connection that sends these words.

        Args:
            words: Part of a statement.
            cut: "request": the server never gets it. "reply": the server has done it, and nobody
                hears of that.
        """
        self._armed = words.encode(), cut

    async def serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Serve one connection until one side closes it, or it is cut."""
        server, to_server = await asyncio.open_unix_connection(self._socket)
        is_mute = asyncio.Event()
        ways = [
            asyncio.create_task(self._up(client, to_server, is_mute)),
            asyncio.create_task(self._down(server, to_client, is_mute)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        to_server.close()
        to_client.close()

    async def _up(
        self,
        client: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
        is_mute: asyncio.Event,
    ) -> None:
        while data := await client.read(_CHUNK_BYTES):
            if self._armed and self._armed[0] in data:
                cut, self._armed = self._armed[1], None
                self.cuts += 1
                if cut == "request":
                    return
                is_mute.set()
            to_server.write(data)
            await to_server.drain()

    async def _down(
        self,
        server: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        is_mute: asyncio.Event,
    ) -> None:
        while data := await server.read(_CHUNK_BYTES):
            if not is_mute.is_set():
                to_client.write(data)
                await to_client.drain()
            elif _READY in data:
                return


@asynccontextmanager
async def proxy(server: Server, dsn: str) -> AsyncGenerator[Proxy]:
    """Run a proxy before the server of a DSN."""
    between = Proxy(f"{server.host}/.s.PGSQL.{server.port}")
    listener = await asyncio.start_server(between.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    between.url = (
        f"postgresql://hudhud@127.0.0.1:{port}/{database_of(dsn)}"
        "?sslmode=disable&gssencmode=disable"
    )
    async with listener:
        yield between
        listener.close()
