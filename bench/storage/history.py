"""What finished jobs cost: a look from the true start, and the drain, beside a history kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.drains import drain
from storage.layouts import Layout
from storage.record import record, shuffled
from storage.server import Spent
from storage.world import fill, old_snapshot, world

if TYPE_CHECKING:
    import argparse

LAYOUTS = ("ledger", "in_place", "running_rows")
SHARE = 20  # of the history, drained beside it


def run(options: argparse.Namespace) -> None:
    """Finish ``--jobs`` jobs, then drain some more, whose first claim looks from the start.

    The old snapshot is opened after the first load, so that the dead rows of its drain stay.
    """
    for repetition, name in shuffled(LAYOUTS, options.repetitions):
        jobs = options.jobs // SHARE
        with world(Layout(name), options.jobs) as here, old_snapshot():
            drain(name)
            fill(here.connection, jobs)
            before = Spent.now(here.connection)
            drained = drain(name)
            after = Spent.now(here.connection)
            record(
                test="history",
                tag=options.tag,
                name=name,
                history=options.jobs,
                repetition=repetition,
                look_ms=drained.claims[0] * 1e3,
                server_ms_1k=(after.cpu_seconds - before.cpu_seconds) * 1e6 / jobs,
                rate=drained.figures()["rate"],
            )
