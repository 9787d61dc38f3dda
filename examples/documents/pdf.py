"""Writes a plain PDF of some pages of Latin text (ISO 32000-1); for the samples and the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def make_pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """Return a PDF with a page per element, a line per text; characters of Latin-1 only."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for n, lines in enumerate(pages):
        stream = b"BT /F1 12 Tf 72 770 Td 16 TL " + b" T* ".join(map(_shown, lines)) + b" ET"
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842]"
            b" /Resources << /Font << /F1 3 0 R >> >>" + f" /Contents {5 + 2 * n} 0 R >>".encode(),
            f"<< /Length {len(stream)} >>\nstream\n".encode() + stream + b"\nendstream",
        ]
    return _file(objects)


def _shown(line: str) -> bytes:
    escaped = line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return b"(" + escaped.encode("latin-1") + b") Tj"


def _file(objects: Sequence[bytes]) -> bytes:
    content = b"%PDF-1.4\n"
    places: list[int] = []
    for number, body in enumerate(objects, start=1):
        places.append(len(content))
        content += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    rows = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    table = f"xref\n0 {size}\n0000000000 65535 f \n{rows}"
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(content)}\n%%EOF\n"
    return content + (table + trailer).encode()
