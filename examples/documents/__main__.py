"""`python -m examples.documents [PATH…] [--json]`; `hudhud demo documents` calls it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from examples.documents.demo import run


def main() -> int:
    """Play the demo; 0 when everything was as it should be."""
    parser = argparse.ArgumentParser(prog="documents", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="PDF or text; default: two samples")
    parser.add_argument("--size", choices=["short", "full"], default="short", help="no difference")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    asked = parser.parse_args()
    missing = [str(path) for path in asked.paths if not path.is_file()]
    if missing:
        parser.error(f"there is no file {', '.join(missing)}")
    report = run(asked.paths, lambda line: print(f"  {line}", file=sys.stderr, flush=True))
    if asked.json:
        print(json.dumps(report.as_json()))
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
