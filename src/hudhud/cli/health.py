"""A worker's health port: alive, ready, and what it has done, for orchestrators and monitors.

A few lines instead of a web framework, because a worker must stay small. It answers on the worker's
own event loop, so a loop that hangs is seen as dead.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import TYPE_CHECKING

from hudhud import telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REQUEST_BYTES_MAX = 8_192
REQUEST_SECONDS = 5.0
SUMMED = ("settled", "refused")
"""Fields of events that are summed beside the number of the events."""


class Counters:
    """Counts what the worker tells about itself."""

    def __init__(self) -> None:
        self._events: Counter[str] = Counter()
        self._sums: Counter[tuple[str, str]] = Counter()

    def __call__(self, event: str, fields: Mapping[str, object]) -> None:
        """Count one event; made to be given to `telemetry.subscribe`."""
        self._events[event] += 1
        for name in SUMMED:
            amount = fields.get(name)
            if isinstance(amount, int):
                self._sums[event, name] += amount

    def text(self) -> str:
        """Return the counters in Prometheus' text form."""
        lines = [
            "# HELP hudhud_events_total What this worker told about itself, by event.",
            "# TYPE hudhud_events_total counter",
            *(f'hudhud_events_total{{event="{e}"}} {n}' for e, n in sorted(self._events.items())),
            "# HELP hudhud_event_amounts_total Runs settled or refused, by event.",
            "# TYPE hudhud_event_amounts_total counter",
            *(
                f'hudhud_event_amounts_total{{event="{e}",of="{of}"}} {n}'
                for (e, of), n in sorted(self._sums.items())
            ),
        ]
        return "\n".join(lines) + "\n"


class HealthPort:
    """Serves /healthz, /readyz and /metrics of one worker."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        """Make the port; `open` listens.

        Args:
            is_ready: Whether the worker claims and finishes jobs now.
        """
        self._is_ready = is_ready
        self._counters = Counters()
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen, and return the port that was taken: port 0 takes a free one.

        Raises:
            OSError: When the address cannot be had.
        """
        telemetry.subscribe(self._counters)
        self._server = await asyncio.start_server(self._answer, host, port, limit=REQUEST_BYTES_MAX)
        taken = self._server.sockets[0].getsockname()[1]
        assert isinstance(taken, int)
        return taken

    async def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(head))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError):
            writer.transport.abort()
        else:
            writer.close()

    def _response(self, head: bytes) -> bytes:
        request = re.match(rb"(GET|HEAD) (/[^ ?]*)", head)
        path = request[2] if request else b""
        status, body = 200, "ok\n"
        if path == b"/metrics":
            body = self._counters.text()
        elif path == b"/readyz" and not self._is_ready():
            status, body = 503, "not ready\n"
        elif path not in {b"/healthz", b"/readyz"}:
            status, body = 404, "not found\n"
        content = body.encode()
        return (
            f"HTTP/1.1 {status} {_PHRASES[status]}\r\n"
            "content-type: text/plain; version=0.0.4; charset=utf-8\r\n"
            f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
        ).encode() + (b"" if head.startswith(b"HEAD") else content)


_PHRASES = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}
