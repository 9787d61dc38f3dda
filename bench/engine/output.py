"""Where figures go: stdout for whoever asked, raw lines for the report; progress to stderr."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from bench.engine import results
from bench.engine.measurement import line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.engine.measurement import Measurement


class Output:
    """The output of one run."""

    def __init__(self, size: str, *, as_json: bool, keeps: bool) -> None:
        """Make it.

        Args:
            size: Name of the run's size, which every document carries.
            as_json: Print a JSON object per measurement, else a line for people.
            keeps: Keep the raw lines under `bench/results/`.
        """
        self._size = size
        self._as_json = as_json
        self._keeps = keeps
        self._bench = ""
        self._began = time.monotonic()

    def begin(self, bench: str) -> None:
        """Say what is measured now."""
        self._bench = bench
        self.say("begins")

    def say(self, words: str) -> None:
        """Tell a person how it goes."""
        seconds = time.monotonic() - self._began
        sys.stderr.write(f"[{seconds:5.0f} s] {self._bench}: {words}\n")

    def show(self, measurement: Measurement, where: Mapping[str, object]) -> None:
        """Print one measurement and keep its raw line."""
        document = measurement.document({"size": self._size, "environment": where})
        print(line(document) if self._as_json else results.words(document), flush=True)
        if self._keeps:
            results.keep(document)
