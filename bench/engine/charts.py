"""Charts as small SVG files: bars with their range, and lines over time; light and dark."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from bench.engine.results import figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH: Final = 720
LABEL: Final = 210  # room for labels on the left
VALUE: Final = 110  # and for figures on the right
ROW: Final = 34
TOP: Final = 48
HEIGHT: Final = 300  # of a chart of lines
OTHER: Final = "#9aa4ad"
COLOURS: Final = ("#2a78b8", "#d9822b", "#5c9e4a", "#8a63b0")
_STYLE: Final = """<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 15px }
.quiet { fill: #57606a; font-size: 12px }
.axis { stroke: #8c959f; stroke-width: 1 }
.range { stroke: #24292f; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .quiet { fill: #9da7b3 } .range { stroke: #e6edf3 }
}
</style>"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its label, its value, and the least and the most that were measured."""

    label: str
    value: float
    low: float
    high: float
    is_ours: bool = True


def bars(title: str, unit: str, rows: Sequence[Bar], *, mark: float | None = None) -> str:
    """Return a chart of horizontal bars.

    Args:
        title: What is shown.
        unit: Of the values.
        rows: From top to bottom.
        mark: A value to draw a line at: what is aimed at.
    """
    most = max(*(row.high for row in rows), mark or 0)
    room = WIDTH - LABEL - VALUE
    parts = [_title(f"{title} ({unit})")]
    for number, row in enumerate(rows):
        y = TOP + number * ROW
        low, high, end = (LABEL + room * part / most for part in (row.low, row.high, row.value))
        middle = y + 10
        parts += [
            f'<text x="{LABEL - 10}" y="{y + 15}" text-anchor="end">{escape(row.label)}</text>',
            _rect(LABEL, y, (end - LABEL, 20), fill=COLOURS[0] if row.is_ours else OTHER),
            _line("range", (low, middle), (high, middle)),
            f'<text x="{max(high, end) + 8:.1f}" y="{y + 15}">{figure(row.value)}</text>',
        ]
    bottom = TOP + len(rows) * ROW
    if mark is not None:
        at = LABEL + room * mark / most
        parts += [
            _line("axis", (at, TOP - 8), (at, bottom - 8), more=' stroke-dasharray="4 3"'),
            f'<text class="quiet" x="{at + 4:.1f}" y="{TOP - 6}">{mark:g}</text>',
        ]
    parts.append(_line("axis", (LABEL, TOP - 8), (LABEL, bottom - 8)))
    return _svg(parts, bottom + 4)


def lines(
    title: str, unit: str, found: Mapping[str, Sequence[Sequence[float]]], *, across: str
) -> str:
    """Return a chart of lines over time, from zero.

    Args:
        title: What is shown.
        unit: Of the values.
        found: Per line its name and its (x, y) pairs.
        across: What x is.
    """
    points = [point for line in found.values() for point in line]
    far, most = max(point[0] for point in points), max(point[1] for point in points)
    left, bottom = 70, HEIGHT - 44
    width, height = WIDTH - left - 20, bottom - TOP - 24
    parts = [_title(f"{title} ({unit})")]
    for number, (name, line) in enumerate(found.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(
            f"{left + width * x / far:.1f},{bottom - height * y / most:.1f}" for x, y in line
        )
        x = left + number * 260
        parts += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
            _rect(x, TOP - 8, (12, 12), fill=colour),
            f'<text x="{x + 18}" y="{TOP + 3}">{escape(name)}</text>',
        ]
    for share in (0, 0.5, 1):
        y = bottom - height * share
        parts += [
            _quiet(left - 8, y + 4, figure(most * share)),
            _line(
                "axis",
                (left, y),
                (left + width, y),
                more=f' stroke-opacity="{0.3 if share else 1}"',
            ),
        ]
    parts.append(_quiet(left + width, HEIGHT - 16, f"{across}: 0 to {figure(far)}"))
    return _svg(parts, HEIGHT)


def _rect(x: float, y: float, size: tuple[float, float], *, fill: str) -> str:
    width, height = size
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2"'
        f' fill="{fill}"/>'
    )


def _line(
    kind: str, start: tuple[float, float], end: tuple[float, float], *, more: str = ""
) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{more}/>'


def _quiet(x: float, y: float, words: str) -> str:
    return f'<text class="quiet" x="{x:.1f}" y="{y:.1f}" text-anchor="end">{escape(words)}</text>'


def _title(text: str) -> str:
    return f'<text class="title" x="10" y="22">{escape(text)}</text>'


def _svg(parts: Sequence[str], height: float) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}"'
        f' width="{WIDTH}" height="{height:g}" role="img">'
    )
    return "\n".join([head, _STYLE, *parts, "</svg>", ""])
