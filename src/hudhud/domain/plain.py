"""From what a read gave to exact JSON text: every digit, instants in UTC, ids as text."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return the JSON text of rows: text, numbers, instants, durations, ids, arrays, objects.

    Every character outside ASCII is escaped, so the text is safe in any terminal and any log.

    Raises:
        TypeError: For a value that rows do not have.
    """
    return json.dumps(value, default=plain, allow_nan=False, indent=indent)


def plain(value: object) -> str | float:
    """Return the JSON form of a value that JSON has no word for."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    message = f"{type(value).__name__} has no JSON form here"
    raise TypeError(message)
