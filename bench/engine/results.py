"""The raw lines of full runs: kept for ever, the newest of each figure is what is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from bench.engine.measurement import line

if TYPE_CHECKING:
    from collections.abc import Mapping

Document: TypeAlias = "dict[str, object]"

FOLDER: Final = Path(__file__).resolve().parents[1] / "results"
FILE: Final = FOLDER / "measurements.jsonl"


def keep(document: Mapping[str, object], file: Path = FILE) -> None:
    """Append a measurement's line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(f"{line(document)}\n")


def newest(file: Path = FILE) -> dict[str, Document]:
    """Return the newest measurement of each bench, by its name; none when nothing was kept."""
    if not file.exists():
        return {}
    lines = [text for text in file.read_text("utf-8").splitlines() if text]
    documents = [cast("Document", json.loads(text)) for text in lines]
    return {str(document["bench"]): document for document in documents}


def words(document: Mapping[str, object]) -> str:
    """Return a measurement as one line for people."""
    text = f"{document['bench']}  {figure(document['value'])} {document['unit']}"
    ratio_to = cast("Document | None", document["ratio_to"])
    if ratio_to is not None:
        text += (
            f"  ({figure(ratio_to['ratio'])} of {ratio_to['name']}: {figure(ratio_to['value'])})"
        )
    if document["target"] is not None:
        text += f"  target {document['target']}: {'met' if document['met'] else 'MISSED'}"
    return text


def figure(value: object) -> str:
    """Return a number as people read it: three digits that matter, thousands apart."""
    number = float(str(value))
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"  # noqa: PLR2004
