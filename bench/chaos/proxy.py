"""A TCP proxy before PostgreSQL that harms connections when it is told to, and knows when.

It reads the messages of both sides, so that it can lose a reply after the server has done what it
was asked, and never before. Where it harms, the network is to blame as far as both ends can see.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

_CHUNK_BYTES: Final = 1 << 16
_STARTUP: Final = 196_608  # protocol 3.0, at the beginning of the first message
_HEAD_BYTES: Final = 5  # of a message: its type and its length
_TEXTS: Final = frozenset({b"Q", b"P"})  # messages of a client that hold a statement
_READY: Final = b"Z"  # the server has done what it was asked
_LINGER_NOT: Final = struct.pack("ii", 1, 0)  # close with RST, as a network that forgot the line
# A host that is gone is noticed by keepalives, which no proxy can hold back: it ends the hole then.
HOLE_SECONDS_MAX: Final = 15.0


class Harm(StrEnum):
    """What can be done to a connection."""

    CUT = "cut"  # after so many more bytes
    LOSE_REQUEST = "lose_request"  # a statement with certain words never arrives
    LOSE_REPLY = "lose_reply"  # it is done, and nobody hears of it
    HOLE = "hole"  # nothing passes either way, and nobody is told
    DELAY = "delay"  # everything comes late
    HALF_CLOSE = "half_close"  # one side hears the other hang up, the other does not


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be harmed, and how.

    Attributes:
        harm: What.
        words: Of a statement, for the two that lose something: the next one that has them.
        choice: Otherwise the n-th of the open connections, modulo their number,
        application: of those whose application's name has this in it.
        amount: Bytes that still pass before a cut, of both sides together; milliseconds by which
            everything is late.
        seconds: How long a hole or a delay lasts.
    """

    harm: Harm
    words: str = ""
    choice: int = 0
    application: str = ""
    amount: int = 0
    seconds: float = 0.0


class Messages:
    """Finds the messages in a stream of PostgreSQL's protocol, however it was cut into pieces."""

    def __init__(self, *, has_startup: bool) -> None:
        """Make one for a client's side, which begins with a message without a type, or not."""
        self.application = ""
        self._is_first = has_startup
        self._unread = b""

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Take a piece; yield the type and the body of each message that it completes."""
        self._unread += data
        while (found := self._next()) is not None:
            yield found

    def _next(self) -> tuple[bytes, bytes] | None:
        head = _HEAD_BYTES - self._is_first
        if len(self._unread) < head:
            return None
        length = int.from_bytes(self._unread[head - 4 : head], "big")
        end = head - 4 + length
        if len(self._unread) < end:
            return None
        kind, body = self._unread[: head - 4], self._unread[head:end]
        self._unread = self._unread[end:]
        if self._is_first and int.from_bytes(body[:4], "big") == _STARTUP:
            self._is_first = False
            words = body[4:].split(b"\0")
            names = dict(zip(words[::2], words[1::2], strict=False))
            self.application = names.get(b"application_name", b"").decode()
        return kind, body


@dataclass(eq=False, slots=True)
class Line:
    """One connection through the proxy."""

    client: asyncio.StreamReader
    to_client: asyncio.StreamWriter
    server: asyncio.StreamReader
    to_server: asyncio.StreamWriter
    up: Messages = field(default_factory=lambda: Messages(has_startup=True))
    down: Messages = field(default_factory=lambda: Messages(has_startup=False))
    is_mute: bool = False  # what the server says is lost, and the line with it once it is done
    bytes_left: int | None = None
    late_seconds: float = 0.0
    late_until: float = 0.0
    hole_until: float = 0.0
    deaf: asyncio.StreamWriter | None = None  # who heard the other side hang up, and nothing since

    async def pass_time(self) -> None:
        """Wait as long as a hole lasts, or as late as everything comes now."""
        now = asyncio.get_running_loop().time()
        if now < self.hole_until:
            await asyncio.sleep(self.hole_until - now)
        elif now < self.late_until:
            await asyncio.sleep(self.late_seconds)

    def is_spent(self, data: bytes) -> bool:
        """Count what passes; return whether the line is to be cut within it."""
        if self.bytes_left is None:
            return False
        self.bytes_left -= len(data)
        return self.bytes_left < 0

    def cut(self) -> None:
        """End both sides at once; the client's without a farewell."""
        plug = self.to_client.get_extra_info("socket")
        with suppress(OSError):  # it may have hung up just now
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.to_client.transport.abort()
        self.to_server.transport.abort()


class Proxy:
    """Passes everything on, until it is told to harm something.

    Attributes:
        port: Where clients connect to, on 127.0.0.1.
        lines: The connections that are open, in the order in which they came.
    """

    def __init__(self, path: str) -> None:
        """Make one before the server that listens on a Unix socket."""
        self.port = 0
        self.lines: list[Line] = []
        self._path = path
        self._armed: tuple[Order, Callable[[str], None]] | None = None

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Take connections while the block lasts, and end them with it."""
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            listener.close()
            for line in list(self.lines):
                line.cut()
            await listener.wait_closed()

    def harm(self, order: Order, on_hit: Callable[[str], None]) -> None:
        """Do harm, now or as soon as what it is meant for comes by.

        Args:
            order: What.
            on_hit: Called with the client's application name once it is done. A later order that
                waits for words takes the place of an earlier one.
        """
        if order.words:
            self._armed = order, on_hit
            return
        lines = [line for line in self.lines if order.application in line.up.application]
        if lines:
            line = lines[order.choice % len(lines)]
            self._harm(line, order)
            on_hit(line.up.application)

    def disarm(self) -> None:
        """Forget an order that waits for its words."""
        self._armed = None

    def _harm(self, line: Line, order: Order) -> None:
        now = asyncio.get_running_loop().time()
        match order.harm:
            case Harm.CUT:
                line.bytes_left = order.amount
            case Harm.HOLE:
                seconds = min(order.seconds, HOLE_SECONDS_MAX)
                line.hole_until = now + seconds
                asyncio.get_running_loop().call_later(seconds, line.cut)
            case Harm.DELAY:
                line.late_seconds, line.late_until = order.amount / 1000, now + order.seconds
            case Harm.HALF_CLOSE:
                side = line.to_server if order.choice % 2 else line.to_client
                line.deaf = side
                with suppress(OSError):  # it may have hung up just now
                    side.write_eof()
            case Harm.LOSE_REQUEST | Harm.LOSE_REPLY:
                message = f"{order.harm} needs words"
                raise ValueError(message)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            server, to_server = await asyncio.open_unix_connection(self._path)
        except OSError:  # the server is away, and so is this connection
            to_client.transport.abort()
            return
        line = Line(client, to_client, server, to_server)
        self.lines.append(line)
        ways = [asyncio.ensure_future(way) for way in (self._up(line), self._down(line))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        self.lines.remove(line)
        for way in ways:
            way.cancel()
        for way, end in zip(ways, await asyncio.gather(*ways, return_exceptions=True), strict=True):
            if isinstance(end, BaseException) and not way.cancelled() and not _is_hang_up(end):
                raise end
        line.cut() if line.is_mute or line.bytes_left is not None else _close(line)

    async def _up(self, line: Line) -> None:
        async for data in _pieces(line.client.read, line):
            for kind, body in line.up.feed(data):
                if kind not in _TEXTS or not self._is_meant(body):
                    continue
                assert self._armed is not None
                (order, on_hit), self._armed = self._armed, None
                on_hit(line.up.application)
                if order.harm is Harm.LOSE_REQUEST:
                    line.cut()
                    return
                line.is_mute = True
            if not await _send(line, line.to_server, data):
                return

    async def _down(self, line: Line) -> None:
        async for data in _pieces(line.server.read, line):
            kinds = {kind for kind, _ in line.down.feed(data)}
            if not line.is_mute:
                if not await _send(line, line.to_client, data):
                    return
            elif _READY in kinds:
                line.cut()
                return

    def _is_meant(self, body: bytes) -> bool:
        return self._armed is not None and self._armed[0].words.encode() in body


async def _pieces(read: Callable[[int], Awaitable[bytes]], line: Line) -> AsyncGenerator[bytes]:
    """Yield what one side sends until it hangs up, as late as the line is."""
    while data := await read(_CHUNK_BYTES):
        await line.pass_time()
        yield data


async def _send(line: Line, to: asyncio.StreamWriter, data: bytes) -> bool:
    """Pass something on, or as much of it as still may pass; return whether the line goes on."""
    if to is line.deaf:
        return True
    if line.is_spent(data):
        assert line.bytes_left is not None
        to.write(data[: line.bytes_left])
        await to.drain()
        return False
    to.write(data)
    await to.drain()
    return True


def _is_hang_up(error: BaseException) -> bool:
    return isinstance(error, OSError)


def _close(line: Line) -> None:
    line.to_server.close()
    line.to_client.close()
