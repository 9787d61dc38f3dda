"""Raw lines: one JSON object per run, appended to ``bench/results/storage.jsonl``."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RESULTS = Path(
    os.environ.get("HUDHUD_BENCH_RESULTS", Path(__file__).parents[1] / "results" / "storage.jsonl")
)

Item = TypeVar("Item")


def record(**line: object) -> None:
    """Append one line and show it."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    rounded = {
        name: float(f"{value:.5g}") if isinstance(value, float) else value
        for name, value in line.items()
    }
    with RESULTS.open("a") as file:
        file.write(json.dumps(rounded) + "\n")
    print(" ".join(f"{name}={value}" for name, value in rounded.items()), flush=True)


def shuffled(items: Sequence[Item], repetitions: int) -> Iterator[tuple[int, Item]]:
    """Every item once per repetition, each repetition in an order of its own."""
    for repetition in range(repetitions):
        order = list(items)
        random.Random(repetition).shuffle(order)  # noqa: S311 - an order, not a secret
        for item in order:
            yield repetition, item
