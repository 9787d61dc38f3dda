"""Write a JSON answer that no cache may keep and no browser may take for HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from hudhud.domain.plain import json_text

if TYPE_CHECKING:
    from collections.abc import Mapping


def answer(
    document: Mapping[str, object], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response: integers with every digit, instants in UTC, ids as text."""
    return Response(
        json_text(document),
        status_code=status,
        media_type="application/json",
        headers={
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            **(headers or {}),
        },
    )
