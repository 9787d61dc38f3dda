"""The proxy in a process of its own: orders in, hits out, a line of JSON each.

    {"id": 7, "harm": "cut", "amount": 40, …}  →  {"id": 7, "hit": "hudhud finishes"}

It begins with `{"port": n}`, and ends with its input. An order that finds nothing has no answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from functools import partial
from typing import Any

import uvloop

from bench.chaos.proxy import Harm, Order, Proxy

_ORDERS = 0
_NEWS = 1


async def serve(path: str) -> None:
    """Serve until nobody gives orders any more."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(_ORDERS, "rb", buffering=0)
    )
    proxy = Proxy(path)
    async with proxy.listening():
        _tell(port=proxy.port)
        while line := await reader.readline():
            _obey(proxy, json.loads(line))


def _obey(proxy: Proxy, order: dict[str, Any]) -> None:
    number = order.pop("id")
    if "harm" not in order:
        proxy.disarm()
        return
    proxy.harm(Order(Harm(order.pop("harm")), **order), partial(_tell_hit, number))


def _tell_hit(number: int, application: str) -> None:
    _tell(id=number, hit=application)


def _tell(**news: object) -> None:
    os.write(_NEWS, json.dumps(news).encode() + b"\n")


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
