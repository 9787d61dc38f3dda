"""``python -m storage TEST``: measure, one JSON line per run, or print the tables."""

from __future__ import annotations

import argparse

from storage import enqueue, history, matrix, parts, questions, report

TESTS = {
    "matrix": matrix.run,
    "questions": questions.run,
    "enqueue": enqueue.run,
    "history": history.run,
    "parts": parts.run,
    "report": report.run,
}


def main() -> None:
    """Read the arguments and run one test."""
    parser = argparse.ArgumentParser(prog="storage", description=__doc__)
    parser.add_argument("test", choices=TESTS)
    parser.add_argument("--only", default="", help="names of variants or questions, comma between")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--tag", default="")
    options = parser.parse_args()
    TESTS[options.test](options)


if __name__ == "__main__":
    main()
