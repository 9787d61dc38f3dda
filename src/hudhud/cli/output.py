"""What the command line prints: rows for people, JSON for programs; nothing a payload can abuse.

Text that came from jobs is escaped before it reaches a terminal: a payload or an error message
must not move its cursor or hide a line.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import typer

from hudhud.domain.plain import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Row = Mapping[str, object]

CELL_CHARACTERS_MAX = 60
HIDDEN = "(personal)"


def print_rows(rows: Iterable[Row], columns: Sequence[str], *, as_json: bool) -> None:
    """Print rows as a table of some columns, or each in full as one line of JSON."""
    if as_json:
        for row in rows:
            typer.echo(json_text(row))
        return
    table = [tuple(columns), *([cell(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[n]) for line in table) for n in range(len(columns))]
    for line in table:
        typer.echo(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        )


def print_one(document: Row, *, as_json: bool) -> None:
    """Print one document: as JSON, or a line for each of its fields."""
    if as_json:
        typer.echo(json_text(document))
        return
    width = max((len(key) for key in document), default=0)
    for key, value in document.items():
        lines: list[object] = [value]
        if isinstance(value, list) and value:
            lines = cast("list[object]", value)
        for n, line in enumerate(lines):
            typer.echo(
                f"{key.ljust(width) if n == 0 else ' ' * width}  {safe(text(line))}".rstrip()
            )


def hidden(payload: Row, fields: Sequence[str]) -> dict[str, object]:
    """Return a payload without the values of some fields."""
    return {name: HIDDEN if name in fields else value for name, value in payload.items()}


def note(message: str) -> None:
    """Tell a person how work goes on; stderr, so that stdout stays what was asked for."""
    typer.echo(safe(message), err=True)


def cell(value: object) -> str:
    """Return a value as one cell of a table, cut to its width; ids are shown whole."""
    shown = safe(text(value))
    if len(shown) > CELL_CHARACTERS_MAX:
        return shown[: CELL_CHARACTERS_MAX - 1] + "…"
    return shown


def text(value: object) -> str:
    """Return a value as people read it; JSON for what has parts."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, (dict, list, bool)):
        return json_text(cast("object", value))
    return str(value)


def safe(shown: str) -> str:
    """Return text with everything that steers a terminal made visible."""
    if shown.isprintable():
        return shown
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in shown
    )
