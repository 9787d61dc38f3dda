"""JSON as people are shown it: every digit, instants in UTC, ids as text, and never a failure.

What is shown may be what no worker could read: SQL takes in deeper nesting and larger fractions
than Python does. Then the text itself is shown.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from math import isfinite
from uuid import UUID


def shown_json(text: str | bytes) -> object:
    """Return the value of a JSON text that the database has, integers exact.

    A number with a fraction that is too large for a float is shown as its digits, and a document
    that nests too deep for Python as its text.
    """
    try:
        return json.loads(text, parse_float=_number)
    except RecursionError:
        return text if isinstance(text, str) else text.decode()


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


def _number(digits: str) -> float | str:
    number = float(digits)
    return number if isfinite(number) else digits
