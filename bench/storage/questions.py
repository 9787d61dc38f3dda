"""Open questions of the ledger, answered one at a time: the same drain with one thing changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from storage.drains import drain
from storage.drivers import DRIVERS
from storage.layouts import HEADS, LEASE_STORAGE, Layout
from storage.record import record, shuffled
from storage.world import world

if TYPE_CHECKING:
    import argparse

BASE = Layout("ledger")
SIZES = {1: 3_000, 20: 30_000, 500: None}  # batch: jobs, None for what was asked
READS = ("static", "static_bounds", "execute", "execute_join", "any", "nothing")
FINISHES = ("rows", "rows_conflict", "rows_plain", "rows_two_steps", "array")
KEYS = {
    "id": BASE,
    "id, shard": replace(BASE, job_key="id, shard"),
    "outcome with shard": replace(BASE, outcome_key="job_id, run, shard"),
}
COMMITS = {"waits for the disk": BASE, "lazy": replace(BASE, lazy_commit=True)}


@dataclass(frozen=True, slots=True)
class Variant:
    """One answer to one question."""

    question: str
    name: str
    layout: Layout
    driver: str = "asyncpg"
    batch: int = 500
    days: int = 0


def variants() -> list[Variant]:
    """Every variant of every question."""
    storages = {name: replace(BASE, lease_storage=name) for name in LEASE_STORAGE}
    types = {name: replace(BASE, outcome_type=name) for name in ("smallint", "text")}
    finishes = {name: replace(BASE, finish=name) for name in FINISHES}
    heads = {name: replace(BASE, head=name) for name in HEADS}
    large = {
        "lease storage": storages,
        "outcome type": types,
        "keys": KEYS,
        "outcome insert": finishes,
    }
    both = {"claim's commit": COMMITS, "function head": heads}
    return [
        *(
            Variant("payload read", name, replace(BASE, read_jobs=name), batch=batch, days=days)
            for name, batch, days in product(READS, SIZES, (0, 28))
        ),
        *(Variant(word, name, each) for word, of in large.items() for name, each in of.items()),
        *(
            Variant(word, name, each, batch=batch)
            for word, of in both.items()
            for name, each in of.items()
            for batch in (1, 500)
        ),
        *(
            Variant("driver", name, BASE, driver=name, batch=batch)
            for name, batch in product(DRIVERS, (1, 500))
        ),
    ]


def run(options: argparse.Namespace) -> None:
    """Measure the chosen questions (all by default), shuffled."""
    asked = options.only.split(",")
    chosen = [variant for variant in variants() if not options.only or variant.question in asked]
    for repetition, variant in shuffled(chosen, options.repetitions):
        with world(variant.layout, SIZES[variant.batch] or options.jobs, days=variant.days) as here:
            drained = drain("ledger", variant.driver, batch=variant.batch)
            record(
                test="question",
                tag=options.tag,
                question=variant.question,
                name=variant.name,
                batch=variant.batch,
                days=variant.days,
                repetition=repetition,
                **drained.figures(),
                **here.account(),
            )
