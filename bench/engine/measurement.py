"""One measured figure: its samples, what it was set against, and whether that is good enough."""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SIGNS: Final = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should reach: its own value, or its ratio to what it was measured against."""

    figure: Literal["value", "ratio"]
    sign: Literal[">=", "<="]
    bound: float

    @override
    def __str__(self) -> str:
        """As it is printed: "ratio >= 0.9"."""
        return f"{self.figure} {self.sign} {self.bound:g}"

    def is_met(self, value: float, ratio: float | None) -> bool:
        """Whether a figure reaches it.

        Raises:
            ValueError: The target is a ratio, and the figure was set against nothing.
        """
        measured = value if self.figure == "value" else ratio
        if measured is None:
            message = f"{self} needs something to be measured against"
            raise ValueError(message)
        return bool(_SIGNS[self.sign](measured, self.bound))


@dataclass(frozen=True, slots=True)
class Control:
    """What a figure was measured against, in the same run and in the same unit.

    Attributes:
        name: What it is.
        samples: One per round, in the rounds' order.
    """

    name: str
    samples: Sequence[float]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A figure with everything that a reader needs to judge it.

    Attributes:
        bench: Its name; the same in every run.
        unit: Of the value and of every sample.
        samples: One per round, or one per event where a percentile is the value.
        value: The figure; the median of the samples unless it is another function of them.
        against: What it was measured against; the ratio is the median of the rounds' ratios where
            both have one sample per round.
        target: What this release must reach; None where there is nothing to hold it against.
        goal: What it shall reach later.
        note: A sentence for the reader.
        detail: Further figures of the same run.
    """

    bench: str
    unit: str
    samples: Sequence[float]
    value: float
    against: Control | None = None
    target: Target | None = None
    goal: Target | None = None
    note: str = ""
    detail: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def ratio(self) -> float | None:
        """The figure as a share of what it was measured against."""
        if self.against is None:
            return None
        if len(self.against.samples) == len(self.samples) and len(self.samples) > 1:
            pairs = zip(self.samples, self.against.samples, strict=True)
            return median(own / other for own, other in pairs)
        return self.value / median(self.against.samples)

    def document(self, context: Mapping[str, object]) -> dict[str, object]:
        """Return the JSON object that is printed and kept.

        Args:
            context: What all measurements of a run share: its size, its number, its environment.
        """
        ratio_to: dict[str, object] | None = None
        if self.against is not None:
            ratio_to = {
                "name": self.against.name,
                "value": _round(median(self.against.samples)),
                "samples": [_round(sample) for sample in self.against.samples],
                "ratio": _round(self.ratio or 0.0),
            }
        return {
            "bench": self.bench,
            "value": _round(self.value),
            "unit": self.unit,
            "samples": [_round(sample) for sample in self.samples],
            "ratio_to": ratio_to,
            "target": str(self.target) if self.target else None,
            "met": self.target.is_met(self.value, self.ratio) if self.target else None,
            "goal": str(self.goal) if self.goal else None,
            "goal_met": self.goal.is_met(self.value, self.ratio) if self.goal else None,
            "note": self.note,
            "detail": dict(self.detail),
            **context,
        }


def middle(  # noqa: PLR0913 - the fields of a measurement
    bench: str,
    unit: str,
    samples: Sequence[float],
    *,
    against: Control | None = None,
    target: Target | None = None,
    goal: Target | None = None,
    note: str = "",
    detail: Mapping[str, object] | None = None,
) -> Measurement:
    """Return a measurement whose value is the median of its samples."""
    return Measurement(
        bench,
        unit,
        samples,
        median(samples),
        against=against,
        target=target,
        goal=goal,
        note=note,
        detail=detail or {},
    )


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the sample below which a share of the others lie."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def line(document: Mapping[str, object]) -> str:
    """Return a document as one line of JSON."""
    return json.dumps(document, ensure_ascii=False)


def _round(value: float) -> float:
    """Keep five digits: more would only pretend."""
    return float(f"{value:.5g}")
