"""Writes refunds.csv: a month of a shop's refunds, as a shop would send them to its bank.

    python -m examples.refunds.generate [--lines N] [--seed S] [FILE]

About 80 % of the lines give back a whole transaction, in one go. The others are parts: one of a
transaction, or two to five, at times equal ones, at times until nothing is left. Among the first
lines is transaction A of 100,000 toman, of which 20,000 and 50,000 go back.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from examples.refunds.sheet import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE: Final = Path(__file__).parent / "refunds.csv"
LINES: Final = 4_000
A: Final = ("A", 100_000, (20_000, 50_000))
A_LINES: Final = (7, 19)  # of the file
# Of the transactions; those in several parts have more lines each, so that of the lines it is 0.80.
WHOLE: Final = 0.89
ONE_PART: Final = 0.05
NEAR: Final = 40.0  # lines, between the parts of a transaction
THOUSAND: Final = 1_000

Row = tuple[str, int, int]


def rows(lines: int, chance: random.Random) -> list[Row]:
    """Return so many refunds, in the order of their days."""
    found: list[tuple[float, Row]] = []
    while len(found) < lines:
        day = float(len(found))
        for row in _transaction(chance):
            found.append((day, row))
            day += chance.expovariate(1 / NEAR)
    ordered = [row for _, row in sorted(found[:lines])]
    name, paid, parts = A
    for line, part in zip(A_LINES, parts, strict=True):
        ordered.insert(line - 2, (name, paid, part))
    return ordered[: max(lines, A_LINES[-1])]


def _transaction(chance: random.Random) -> Iterator[Row]:
    """Yield what goes back of one transaction."""
    name = f"{chance.randrange(10**11, 10**12)}"
    thousands = min(max(round(chance.lognormvariate(5.3, 1.1)), 12), 50_000)
    paid = thousands * THOUSAND
    kind = chance.random()
    if kind < WHOLE:
        yield name, paid, paid
    elif kind < WHOLE + ONE_PART:
        yield name, paid, chance.randrange(1, thousands) * THOUSAND
    else:
        for part in _parts(thousands, chance):
            yield name, paid, part * THOUSAND


def _parts(thousands: int, chance: random.Random) -> Iterator[int]:
    """Yield parts of a sum that are not more than it together."""
    amount = min(chance.choice((2, 2, 2, 2, 3, 3, 4, 5)), thousands)
    if chance.random() < 1 / 3:
        yield from [thousands // amount] * amount
        return
    left = thousands
    for others in range(amount - 1, -1, -1):
        part = chance.randint(1, max((left - others) * 2 // (others + 2), 1))
        left -= part
        yield part


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(prog="generate", description="A shop's refunds.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    parser.add_argument("--lines", type=int, default=LINES, help="refunds in it, 19 at least")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)  # noqa: S311 - the same file from the same seed
    with asked.file.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows(asked.lines, chance))
    return 0


if __name__ == "__main__":
    sys.exit(main())
