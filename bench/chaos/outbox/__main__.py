"""Publish and judge: `python -m bench.chaos.outbox --events N --seed S --json`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from typing import TYPE_CHECKING, Final

from bench.chaos.outbox.soak import soak

if TYPE_CHECKING:
    from collections.abc import Sequence

TOLD_MAX: Final = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak; 0 if no event was lost, doubled or reordered, and the copy waited to be told."""
    asked = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    soaked = soak(asked.events, asked.seed)
    for finding in soaked.findings[:TOLD_MAX]:
        sys.stderr.write(f"{finding.breach}: {finding.words}\n")
    if asked.json:
        print(json.dumps(soaked.document))
    else:
        for name, value in soaked.document.items():
            print(f"{name:<22} {value}")
    return 0 if soaked.is_good else 1


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    found = argparse.ArgumentParser(prog="python -m bench.chaos.outbox", description=__doc__)
    found.add_argument("--events", type=int, default=200_000)
    found.add_argument("--seed", type=int, default=1)
    found.add_argument("--json", action="store_true")
    return found


if __name__ == "__main__":
    sys.exit(main())
