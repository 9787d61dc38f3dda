"""Tables from the raw lines: min / median / max of each figure."""

from __future__ import annotations

import json
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any

from storage.record import RESULTS

if TYPE_CHECKING:
    import argparse

GROUPS = {
    "matrix": ("name", "history", "snapshot", "partitions"),
    "question": ("question", "batch", "days", "name"),
    "enqueue": ("name", "clients", "partitions"),
    "history": ("name", "history"),
    "part": ("part", "batch", "days", "name"),
}
FIGURES = (
    "rate",
    "first_fifth",
    "last_fifth",
    "server_ms_1k",
    "wal",
    "bulk_rate",
    "bulk_server_ms_1k",
    "bulk_wal",
    "client_us",
    "claim_ms",
    "finish_ms",
    "look_ms",
    "microseconds",
)


def spread(lines: list[dict[str, Any]]) -> str:
    """Min / median / max of every figure that the lines have."""
    found = []
    for name in FIGURES:
        values = sorted(line[name] for line in lines if name in line)
        if values:
            found.append(f"{name} {values[0]:.4g}/{median(values):.4g}/{values[-1]:.4g}")
    return " | ".join(found)


def run(options: argparse.Namespace) -> None:
    """Print one line per group of runs."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for text in RESULTS.read_text().splitlines():
        line = json.loads(text)
        if line["test"] in GROUPS and options.tag in {"", line["tag"]}:
            key = (line["test"], *(str(line[name]) for name in GROUPS[line["test"]]))
            groups[key].append(line)
    asked = set(options.only.split(",")) - {""}
    for group, lines in sorted(groups.items()):
        if not asked or asked & set(group):
            print(*group, f"({len(lines)})", spread(lines))
