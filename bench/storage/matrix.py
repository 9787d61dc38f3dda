"""The comparison: layouts, each with and without history, an old snapshot, partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from storage.drains import drain
from storage.layouts import Layout
from storage.record import record, shuffled
from storage.world import world

if TYPE_CHECKING:
    import argparse

SNAPSHOT_FACTOR = 3  # a longer drain, so that a rate that falls is seen falling
FIRST_DRAWN = Layout(
    "ledger",
    "rows_conflict",
    read_jobs="execute_join",
    lease_storage="default",
    head="bare",
)
KINDS = {
    "ledger": (Layout("ledger"), "asyncpg"),
    "ledger, psycopg": (Layout("ledger"), "psycopg-async-binary"),
    "ledger, array per batch": (Layout("ledger", "array"), "asyncpg"),
    "ledger, first drawn": (FIRST_DRAWN, "asyncpg"),
    "in place": (Layout("in_place"), "asyncpg"),
    "running rows": (Layout("running_rows"), "asyncpg"),
}
KINDS_WITHOUT_HISTORY = ("ledger", "in place", "running rows")


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the comparison."""

    name: str
    layout: Layout
    driver: str
    snapshot: bool


def cases() -> list[Case]:
    """All cells."""
    found = []
    for history, snapshot, partitions in product((True, False), (False, True), (1, 60)):
        for name in KINDS if history else KINDS_WITHOUT_HISTORY:
            layout, driver = KINDS[name]
            finish = layout.finish if history else "none"
            shaped = replace(layout, finish=finish, partitions=partitions)
            found.append(Case(name, shaped, driver, snapshot))
    return found


def run(options: argparse.Namespace) -> None:
    """Measure every cell, shuffled."""
    chosen = [case for case in cases() if options.only in {"", case.name}]
    for repetition, case in shuffled(chosen, options.repetitions):
        jobs = options.jobs * (SNAPSHOT_FACTOR if case.snapshot else 1)
        with world(case.layout, jobs, snapshot=case.snapshot) as here:
            drained = drain(case.layout.name, case.driver)
            record(
                test="matrix",
                tag=options.tag,
                name=case.name,
                history=case.layout.finish != "none",
                snapshot=case.snapshot,
                partitions=case.layout.partitions,
                driver=case.driver,
                repetition=repetition,
                **drained.figures(),
                **here.account(),
            )
