"""Keeps a queue fed: `python -m bench.engine.feeder BOARD JOBS SECONDS BACKLOG RATE`.

It enqueues in bulk whenever the backlog (what it made minus what the worker's board counts) is
below a mark, until it has made as many jobs and has gone on for as long as was said. With a rate
above 0 it makes no more than so many a second. The board is the worker's.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

import psycopg

from bench.engine import jobs
from bench.engine.board import Board, tell

POLL_SECONDS: Final = 0.002


def feed(dsn: str, board: Board, *, amount: int, seconds: float, backlog: int, rate: float) -> None:
    """Feed until both the amount and the time are reached; tells each time the queue ran short."""
    sent, short = backlog, 0
    began = time.monotonic()
    with psycopg.connect(dsn, autocommit=True) as connection:
        while sent < amount or time.monotonic() - began < seconds:
            left = sent - board.count
            short += left < jobs.BULK
            is_early = rate > 0 and sent - backlog > rate * (time.monotonic() - began)
            if left >= backlog or is_early:
                time.sleep(POLL_SECONDS)
                continue
            jobs.load(connection, jobs.BULK, first=sent)
            sent += jobs.BULK
    tell(sent=sent, short=short)


def main() -> None:
    """Read the arguments and feed."""
    path, amount, seconds, backlog, rate = sys.argv[1:]
    feed(
        os.environ["HUDHUD_DATABASE_URL"],
        Board(Path(path)),
        amount=int(amount),
        seconds=float(seconds),
        backlog=int(backlog),
        rate=float(rate),
    )
    signal.pause()  # until whoever started us has read that, and stops us


if __name__ == "__main__":
    main()
