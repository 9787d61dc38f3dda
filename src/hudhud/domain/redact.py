"""What is kept of a failure: bounded text without secrets, a code that groups, a fingerprint.

Masked are values named like secrets, bearer and basic credentials, passwords in URLs, signed
tokens, e-mail addresses, and digits that are long enough for a card, a phone or an identity
number. The recording of a failure must not fail, so `describe` answers for every exception: for
one whose text cannot be read it says only the class.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from traceback import extract_tb
from typing import TYPE_CHECKING, cast

from hudhud.errors import Verdict, snake_code

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT_CHARACTERS_MAX = 4_000
UNREADABLE = "its text could not be read"
MESSAGE_CHARACTERS_MAX = 2_000
READ_CHARACTERS_MAX = 16_000  # of one exception's message; the patterns see no more
CAUSES_MAX = 5
FRAMES_MAX = 8
FINGERPRINT_DIGITS = 16
DIGITS_MIN = 10  # a phone number without its country


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure as stored: `text` is redacted, at most 4,000 characters, and storable as is."""

    code: str
    text: str
    fingerprint: str


def describe(error: BaseException) -> Failure:
    """Return what to keep of an exception; never raises one of its own.

    The code is the verdict's own, else the class's name in snake_case. The fingerprint is equal for
    failures of one code whose class, place in the code and message (numbers aside) are equal.
    """
    try:
        code = error.code if isinstance(error, Verdict) else code_of(type(error).__name__)
        lines = [_line(one) for one in _chain(error)]
        text = _bounded("\n".join([*lines, *_frames(error)]), TEXT_CHARACTERS_MAX)
        return Failure(code, text, _fingerprint(code, error, lines[0]))
    except BaseException:  # noqa: BLE001 - the last resort: even when its text would exit, it is kept
        name = clean(str(type.__dict__["__name__"].__get__(type(error))))[:200]
        text = f"{name}: {UNREADABLE}"
        return Failure(code_of(name), text, _digest(text))


def code_of(class_name: str) -> str:
    """Return a class's name as a code: "HTTPStatusError" as "http_status_error"."""
    return snake_code(_WORD_START.sub("_", class_name))


def redact(text: str) -> str:
    """Return text with what looks like a secret or personal data masked, and storable."""
    text = clean(text[:READ_CHARACTERS_MAX])
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text


def without_secrets(value: object) -> object:
    """Return a JSON value in which every field that is named like a secret says `[secret]`.

    Other fields are kept as they are, digits and addresses too: a result is there to be used again.
    """
    if isinstance(value, dict):
        fields = cast("dict[object, object]", value)
        return {
            name: "[secret]" if _is_secret(name) and inner is not None else without_secrets(inner)
            for name, inner in fields.items()
        }
    if isinstance(value, list | tuple):
        return [without_secrets(inner) for inner in cast("list[object]", value)]
    return value


def _is_secret(name: object) -> bool:
    """Whether a field is named like a secret, in snake_case or camelCase."""
    return isinstance(name, str) and bool(_SECRET_NAME.fullmatch(_WORD_START.sub("_", name)))


def clean(text: str) -> str:
    """Return text that PostgreSQL can store: U+0000 and lone surrogates become U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_NAMES = (  # of fields whose value is a secret
    "password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    "|authorization|credential|cookie|session[_-]?id|otp|cvv2?|pin"
)
_SECRET_NAME = re.compile(rf"(?i)(?:.*[_.-])?(?:{_NAMES})s?(?:[_.-].*)?")
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}"), r"\1 [secret]"),
    (re.compile(r"\beyJ[\w-]{5,}\.[\w-]+(\.[\w-]*)*"), "[secret]"),
    (re.compile(r"(?i)([a-z][a-z0-9+.-]{0,20}://[^\s:/@]{0,200}):[^\s@]{1,200}@"), r"\1:[secret]@"),
    (
        re.compile(
            rf"""(?ix)
            \b ( (?:[\w.-]{{0,40}}[_.-])? (?:{_NAMES}) s? (?:[_.-][\w.-]{{0,40}})? )
            ( ["']? \s* (?: [:=]>? | \)=\( ) \s* )
            ( "[^"\n]*" | '[^'\n]*' | (?:bearer|basic)\s\S+ | [^\s,;&)\]}}]+ )"""
        ),
        r"\1\2[secret]",
    ),
    (re.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"), "[email]"),
    (
        # Not a date, a fraction or a part of a UUID.
        re.compile(
            rf"""(?ix) (?<![0-9a-z]) (?<![0-9a-f]-) (?<!\d\.) (?!\d{{4}}-\d\d-\d\d)
            \+? \d (?:[ -]?\d){{{DIGITS_MIN - 1},}} (?![0-9a-z]) (?!-[0-9a-f])"""
        ),
        "[digits]",
    ),
)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, the members of a group, and what caused it; bounded, without a circle."""
    seen: list[BaseException] = []
    waiting = [error]
    while waiting and len(seen) < CAUSES_MAX:
        one = waiting.pop(0)
        if any(one is other for other in seen):
            continue
        seen.append(one)
        yield one
        if isinstance(one, BaseExceptionGroup):
            members = cast("BaseExceptionGroup[BaseException]", one).exceptions
            waiting.extend(members[:CAUSES_MAX])
        cause = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        if cause is not None:
            waiting.append(cause)


def _line(error: BaseException) -> str:
    name = type(error).__name__
    try:
        message = _bounded(redact(str(error)), MESSAGE_CHARACTERS_MAX)
    except BaseException:  # noqa: BLE001 - even when it would exit; the others and the places are kept
        message = UNREADABLE
    return f"{name}: {message}" if message else name


def _frames(error: BaseException) -> Iterator[str]:
    """Yield the innermost places, without source lines or values: "at refund.py:41 in charge"."""
    for frame in extract_tb(error.__traceback__, limit=-FRAMES_MAX):
        yield f"at {clean(frame.filename.rpartition('/')[2])}:{frame.lineno} in {frame.name}"


def _fingerprint(code: str, error: BaseException, line: str) -> str:
    """The place counts by function, not by line: an edit above it does not make a new failure."""
    frames = extract_tb(error.__traceback__, limit=-3)
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.name}" for frame in frames]
    return _digest("\n".join([code, re.sub(r"\d+", "#", line)[:500], *places]))


def _digest(text: str) -> str:
    return hashlib.sha256(clean(text).encode()).hexdigest()[:FINGERPRINT_DIGITS]


def _bounded(text: str, characters_max: int) -> str:
    text = clean(text)
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"
