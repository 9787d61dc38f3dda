"""Payloads: from Python values to JSON text and back, exactly, or with a clear refusal.

What PostgreSQL or a worker could not keep is refused at intake, and the refusal names the JSON
path: U+0000 and lone surrogates in text or keys, NaN and infinities, integers of more than 1,000
digits, values that JSON has no word for. Values are walked, never their serialised text: text that
merely looks like an escape is honest text. Integers keep every digit. Floats keep their value; a
float without a fraction may come back as an integer, and -0.0 as 0.0, as jsonb is numeric.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import NoReturn, cast

from hudhud.errors import InvalidJobError, PayloadTooLargeError

# The database's setting payload_bytes_max has the last word; it cannot be set above this.
BYTES_CEILING = 1_048_576
RESULT_BYTES_MAX = 16_384  # of a handler's result; larger things are stored, and referred to
INTEGER_DIGITS_MAX = 1_000
NESTING_MAX = 100  # far below what exhausts a reader's stack

_INTEGER_END = 10**INTEGER_DIGITS_MAX
_PLAIN_STEP = re.compile(r'[^\x00-\x20\x7f".\[\]\\]+')
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def dump(payload: object, *, bytes_max: int = BYTES_CEILING) -> str:
    """Return the JSON text of a payload.

    Args:
        payload: A JSON object as a mapping: keys are str; values are str, int, float, bool, None,
            lists or tuples of them, dicts of them.
        bytes_max: Bytes of the text in UTF-8.

    Raises:
        InvalidJobError: For what is not exactly kept; the message begins with the JSON path.
        PayloadTooLargeError: For a longer text.
    """
    if not isinstance(payload, Mapping):
        _refuse(f"$ must be a JSON object, not {type(payload).__name__}")
    value = cast("Mapping[str, object]", payload)
    return dump_value(value if isinstance(value, dict) else dict(value), bytes_max=bytes_max)


def dump_value(value: object, *, bytes_max: int = BYTES_CEILING) -> str:
    """Return the JSON text of any JSON value, a handler's result for one; else as `dump`."""
    if not _is_flat(value) and (problem := _problem(value, NESTING_MAX)):
        _refuse(f"${problem}")
    text = _encode(value)
    size = len(text) if text.isascii() else len(text.encode())
    if size > bytes_max:
        message = (
            f"The JSON text has {size} bytes; at most {bytes_max} are taken."
            " Store the data elsewhere and enqueue a reference to it."
        )
        raise PayloadTooLargeError(message)
    return text


def load(text: str) -> dict[str, object]:
    """Return the payload that a JSON text holds, integers exact.

    Raises:
        InvalidJobError: When it is not a JSON object that `dump` would have accepted.
    """
    try:
        value: object = _decode(text)
    except (ValueError, RecursionError) as error:
        _refuse(f"$ cannot be read: {error}")
    if not isinstance(value, dict):
        _refuse(f"$ must be a JSON object, not {type(value).__name__}")
    return cast("dict[str, object]", value)


def check_text(text: str, path: str) -> None:
    """Refuse text that PostgreSQL cannot keep: U+0000 or a lone surrogate.

    Args:
        text: An option of a job, a tag for one.
        path: Where it stands, for the message: "idempotency_key", "tags[2]".

    Raises:
        InvalidJobError: The message begins with the path.
    """
    problem = _text_problem(text)
    if problem:
        _refuse(f"{path}{problem}")


def step(name: str) -> str:
    """Return a field's name as a step of a JSON path: quoted if it would be misread otherwise.

    The database's json_step does the same.
    """
    return name if _PLAIN_STEP.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _is_flat(value: object) -> bool:
    """Whether it is an object of plain texts and numbers, as most are, in which nothing is wrong.

    One loop, as enqueues wait for it; `_problem` knows the rules.
    """
    if type(value) is not dict:
        return False
    for key, inner in cast("dict[object, object]", value).items():
        if not (type(key) is str and key.isprintable()):
            return False
        kind = type(inner)
        if kind is str:
            if not cast("str", inner).isprintable():
                return False
        elif not (kind is int and -_INTEGER_END < cast("int", inner) < _INTEGER_END):
            return False
    return True


def _problem(value: object, levels: int) -> str | None:
    """Return the path below the value and what is wrong there: ".note[2] holds U+0000"."""
    if isinstance(value, str):
        return _text_problem(value)
    if value is None or isinstance(value, (int, float)):
        return _number_problem(value)
    if levels == 0:
        return f" is nested more than {NESTING_MAX} levels deep"
    if isinstance(value, dict):
        return _object_problem(cast("dict[object, object]", value), levels - 1)
    if isinstance(value, (list, tuple)):
        return _array_problem(cast("list[object]", value), levels - 1)
    return f" is of type {type(value).__name__}; enqueue text, numbers or a reference instead"


def _number_problem(value: object) -> str | None:
    if isinstance(value, int) and not -_INTEGER_END < value < _INTEGER_END:
        return f" is an integer of more than {INTEGER_DIGITS_MAX} digits"
    if isinstance(value, float) and not isfinite(value):
        return f" is {value}, which JSON cannot say"
    return None


def _object_problem(value: dict[object, object], levels: int) -> str | None:
    for key, inner in value.items():
        if not isinstance(key, str):
            return f" has the key {key!r}; keys must be text"
        problem = _text_problem(key)
        if problem:
            return f" has the key {key!a}, which{problem}"
        problem = _problem(inner, levels)
        if problem:
            return f".{step(key)}{problem}"
    return None


def _array_problem(value: list[object], levels: int) -> str | None:
    for position, inner in enumerate(value):
        problem = _problem(inner, levels)
        if problem:
            return f"[{position}]{problem}"
    return None


def _text_problem(text: str) -> str | None:
    if text.isprintable():  # the common case: neither of the two is printable
        return None
    if "\0" in text:
        return " holds U+0000, which PostgreSQL cannot store"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return " holds a lone surrogate, which is no text"
    return None


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        message = f"{digits[:20]}… is too large a number"
        raise ValueError(message)
    return number


def _refuse_constant(word: str) -> NoReturn:
    message = f"{word} is not JSON"
    raise ValueError(message)


def _refuse(problem: str) -> NoReturn:
    message = f"{problem}."
    raise InvalidJobError(message)


# Made once: json.loads would make a decoder anew for every payload.
_decode = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant).decode
