"""Kill and judge: `python -m bench.chaos --kills N --seed S --json`; `hudhud chaos` calls it."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.chaos.options import Options
from bench.chaos.run import run

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS_PER_KILL: Final = 4.0
SECONDS_MIN: Final = 120.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 0 if every promise was kept, 1 if not, and if fewer than 80 % of the kills hit work."""
    asked = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _leave)
    seconds = asked.seconds or max(SECONDS_MIN, asked.kills * SECONDS_PER_KILL)
    report = run(Options(asked.kills, asked.seed, seconds, directory=asked.keep))
    for line in report.lines():
        sys.stderr.write(f"{line}\n")
    document = report.document()
    if asked.json:
        print(json.dumps(document))
    else:
        for name, value in document.items():
            print(f"{name:<20} {value}")
    return 0 if report.is_good else 1


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    found = argparse.ArgumentParser(prog="hudhud chaos", description=__doc__)
    found.add_argument("--kills", type=int, default=100)
    found.add_argument("--seed", type=int, default=1)
    found.add_argument("--seconds", type=float, help="begin no further fault after so many")
    found.add_argument("--keep", type=Path, help="a new directory for logs and data, kept")
    found.add_argument("--json", action="store_true")
    return found


def _leave(number: int, _: object) -> None:
    """End as Ctrl-C does: whatever was started is ended on the way out."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
