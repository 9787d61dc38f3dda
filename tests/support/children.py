"""Process handlers of tests; a fresh process must be able to import them."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import psycopg

from hudhud import Client, NewEvent, NewJob

if TYPE_CHECKING:
    from hudhud.worker.child import ProcessContext


def report_pid(ctx: ProcessContext, *, sleep_seconds: float = 0.0) -> int:
    """Say which process this is, then take a while."""
    ctx.log(f"pid {os.getpid()}")
    time.sleep(sleep_seconds)
    return os.getpid()


def enqueue_and_publish(_ctx: ProcessContext, *, url: str) -> None:
    """Make a job and an event, as any code does that runs in a handler."""
    with psycopg.connect(url, prepare_threshold=None) as connection:
        Client().enqueue(connection, NewJob("made", {}))
        Client().publish(connection, NewEvent("made", {}))


def die(ctx: ProcessContext) -> None:
    """Kill the process that runs this, as the kernel does when memory is short."""
    ctx.log("about to die")
    os.kill(os.getpid(), signal.SIGKILL)
