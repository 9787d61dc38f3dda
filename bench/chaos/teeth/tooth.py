"""What a planted fault is, and what must be found because of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.chaos.finding import Breach

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.chaos.report import Report

STANDS_STILL: Final = "stands still"
"""What no record shows: nothing went on, or a process ended by itself."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one SQL function: in its file, this text takes the place of that one.

    Raises:
        LookupError: When planted, if the text is not in the file as often as was said: the function
            has changed, and the fault must be planted anew.
    """

    function: str
    old: str
    new: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Tooth:
    """One planted fault.

    Attributes:
        name: Of the fault.
        words: What is wrong, in a sentence.
        expects: Any of these must be found: breaches, or that it stands still.
        edits: Of SQL functions.
        before: Statements that the edits need.
        patch: Of the Python code: name of a function of `patches`, called in each process of the
            fleet before it starts.
        options: What the run is asked for, beyond the usual.
    """

    name: str
    words: str
    expects: frozenset[str]
    edits: tuple[Edit, ...] = ()
    before: str = ""
    patch: str = ""
    options: Mapping[str, object] = field(default_factory=dict[str, object])

    def caught(self, report: Report) -> set[str]:
        """Return what was found of what must be."""
        found = {finding.breach.value for finding in report.findings}
        if report.unexpected:
            found.add(STANDS_STILL)
        return found & self.expects


def expects(*breaches: Breach | str) -> frozenset[str]:
    """Return what must be found."""
    return frozenset(breach.value if isinstance(breach, Breach) else breach for breach in breaches)
