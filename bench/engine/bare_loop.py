"""The bare loop: `python -m bench.engine.bare_loop CONNECTIONS TRANSACTIONS`.

BEGIN, one INSERT, COMMIT with the same driver on the same event loop as a worker has, on so many
connections at once, and of everything else nothing: what a handler that only writes to the
database can be measured against.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import psycopg
import uvloop

from bench.engine import business
from bench.engine.board import tell


async def transact(connection: psycopg.AsyncConnection, amount: int) -> None:
    """Do transactions on one connection, one after another."""
    for number in range(amount):
        async with connection.transaction():
            await connection.execute(business.INSERT, (f"user-{number}",))


async def loop(dsn: str, *, connections: int, amount: int) -> dict[str, float]:
    """Share out transactions to connections; return the seconds that they took, and the CPU's."""
    opened = [
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) for _ in range(connections)
    ]
    each = amount // connections
    began, cpu = time.monotonic(), time.process_time()
    async with asyncio.TaskGroup() as tasks:
        for connection in opened:
            tasks.create_task(transact(connection, each))
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    for connection in opened:
        await connection.close()
    return {"seconds": seconds, "cpu_seconds": cpu}


def main() -> None:
    """Read the arguments, loop and tell."""
    connections, amount = map(int, sys.argv[1:])
    dsn = os.environ["HUDHUD_DATABASE_URL"]
    tell(**uvloop.run(loop(dsn, connections=connections, amount=amount)))
    signal.pause()  # until whoever started us has read that, and stops us


if __name__ == "__main__":
    main()
