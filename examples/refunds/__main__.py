"""`python -m examples.refunds [--csv PATH] [--json]`; `hudhud demo refunds` calls it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from examples.refunds import sheet
from examples.refunds.demo import KILLS, run
from examples.refunds.generate import FILE

LINES_MAX: Final = {"short": 251, "full": None}  # of our own file, the first with the names


def main() -> int:
    """Play the demo; 0 when every refund was made exactly once."""
    parser = argparse.ArgumentParser(prog="refunds", description=__doc__)
    parser.add_argument("--csv", type=Path, help="your refunds; default: the example's own")
    parser.add_argument("--size", choices=list(KILLS), default="short", help="how much of ours")
    parser.add_argument("--seed", type=int, default=1, help="of the bank's moods")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    asked = parser.parse_args()
    try:
        if asked.csv is None:
            refunds = sheet.read(FILE, lines_max=LINES_MAX[asked.size])
        else:
            refunds = sheet.read(asked.csv)
    except OSError as error:
        parser.error(f"{asked.csv or FILE} cannot be read: {error.strerror}")
    except sheet.SheetError as error:
        parser.error(str(error))
    report = run(refunds, say, size=asked.size, seed=asked.seed)
    if asked.json:
        print(json.dumps(report.as_json()))
    return 0 if report.ok else 1


def say(line: str) -> None:
    """Tell the person who watches."""
    print(f"  {line}".rstrip(), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
