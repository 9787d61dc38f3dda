"""A file of refunds, read: the lines that can be understood, and what is wrong with the others.

The columns `transaction_id`, `transaction_amount` and `refund_amount` are found by their names, in
any order, beside any others; fields are separated by commas, semicolons or tabs, as the first line
shows. UTF-8, with or without a byte order mark; any ends of lines. A record is one line.

Amounts are whole toman above zero. Persian and Arabic digits are digits (a transaction number is
the same in either), but anything else is refused rather than guessed: signs, points, separators of
thousands, spaces between digits, and characters that nobody sees.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

COLUMNS: Final = ("transaction_id", "transaction_amount", "refund_amount")
BYTES_MAX: Final = 64 * 1024 * 1024
AMOUNT_MAX: Final = 10**15
ID_CHARACTERS_MAX: Final = 100
SHOWN_CHARACTERS_MAX: Final = 40
_DIGITS: Final = str.maketrans("۰۱۲۳۴۵۶۷۸۹٠١٢٣٤٥٦٧٨٩", "01234567890123456789")
_WHOLE: Final = re.compile(r"[0-9]+")
_NEGATIVE: Final = re.compile(r"[-\u2212][0-9]+")


class Reason(StrEnum):
    """Why a line is refused: stable, for programs."""

    NOT_UTF8 = "not_utf8"
    BROKEN_LINE = "broken_line"
    WRONG_TRANSACTION = "wrong_transaction_id"
    NOT_A_WHOLE_NUMBER = "not_a_whole_number"
    NOT_ABOVE_ZERO = "not_above_zero"
    TOO_LARGE = "too_large"
    AMOUNTS_DIFFER = "transaction_amounts_differ"
    ABOVE_TRANSACTION = "above_transaction"


class SheetError(ValueError):
    """The file as a whole cannot be read."""


class LineError(ValueError):
    """A line cannot be taken."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Line:
    """A refund that somebody wants; its number counts the lines of the file from 1."""

    number: int
    transaction_id: str
    transaction_amount: int
    refund_amount: int


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that is not taken, and why."""

    number: int
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """A file: its name, the SHA-256 of its bytes in hexadecimal, its lines in their order."""

    file_name: str
    sha256: str
    lines: Sequence[Line]
    refused: Sequence[RefusedLine]


def read(path: Path, *, lines_max: int | None = None) -> Sheet:
    """Read a file.

    Args:
        path: Where it is.
        lines_max: Read so many lines at most, the first with the names included; None: all.

    Raises:
        SheetError: It lacks a column, or is too large.
        OSError: It is not there, or no file, or not ours to read.
    """
    with path.open("rb") as file:
        content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        message = f"{path.name} has more than {BYTES_MAX} bytes; split it."
        raise SheetError(message)
    lines: list[Line] = []
    refused: list[RefusedLine] = []
    rows = _rows(content, lines_max)
    first = next(rows, None)
    if first is not None:
        header = _Header(first[1], path.name)
        for number, text in rows:
            try:
                lines.append(header.line(number, text))
            except LineError as error:
                refused.append(RefusedLine(number, error.reason, str(error)))
    return Sheet(path.name, hashlib.sha256(content).hexdigest(), lines, refused)


class _Header:
    """The first line: where each column is, and what stands between the fields."""

    def __init__(self, text: str, file_name: str) -> None:
        self._separator = max(",;\t", key=text.count)
        try:
            names = [name.strip().lower() for name in self._fields(text)]
        except LineError:
            names = []
        self._columns = len(names)
        self._places = [names.index(name) for name in COLUMNS if names.count(name) == 1]
        if len(self._places) != len(COLUMNS):
            message = (
                f"{file_name} must be UTF-8 and begin with a line that names the columns"
                f" {', '.join(COLUMNS)}, once each."
            )
            raise SheetError(message)

    def line(self, number: int, text: str) -> Line:
        """Read a line.

        Raises:
            LineError: It cannot be taken.
        """
        if not text.isprintable() and any("\udc80" <= one <= "\udcff" for one in text):
            raise LineError(Reason.NOT_UTF8, "is not UTF-8")
        fields = self._fields(text)
        if len(fields) < self._columns or any(field.strip() for field in fields[self._columns :]):
            message = f"has {len(fields)} fields where the first line has {self._columns}"
            raise LineError(Reason.BROKEN_LINE, message)
        transaction_id, paid, refund = (fields[place].strip() for place in self._places)
        return Line(
            number,
            _transaction_id(transaction_id),
            _amount("transaction_amount", paid),
            _amount("refund_amount", refund),
        )

    def _fields(self, text: str) -> list[str]:
        try:
            [fields] = csv.reader([text], delimiter=self._separator, strict=True)
        except csv.Error as error:
            message = f"cannot be read as CSV: {error}"
            raise LineError(Reason.BROKEN_LINE, message) from error
        return fields


def _rows(content: bytes, lines_max: int | None) -> Iterator[tuple[int, str]]:
    """Yield the lines that hold anything, each with its number."""
    # What is no UTF-8 spoils its own line alone.
    text = io.TextIOWrapper(
        io.BytesIO(content), encoding="utf-8-sig", errors="surrogateescape", newline=None
    )
    for number, line in enumerate(text, start=1):
        if lines_max is not None and number > lines_max:
            return
        if line.strip():
            yield number, line.rstrip("\n")


def _transaction_id(text: str) -> str:
    name = unicodedata.normalize("NFC", text).translate(_DIGITS)
    if not 0 < len(name) <= ID_CHARACTERS_MAX:
        message = f"transaction_id must have 1 to {ID_CHARACTERS_MAX} characters"
        raise LineError(Reason.WRONG_TRANSACTION, message)
    for one in name:
        if not one.isprintable():
            message = f"transaction_id holds the unseen character U+{ord(one):04X}"
            raise LineError(Reason.WRONG_TRANSACTION, message)
    return name


def _amount(column: str, text: str) -> int:
    digits = text.translate(_DIGITS)
    shown = ascii(text[:SHOWN_CHARACTERS_MAX]) if not text.isprintable() else repr(text)
    if not _WHOLE.fullmatch(digits):
        if _NEGATIVE.fullmatch(digits):
            raise LineError(Reason.NOT_ABOVE_ZERO, f"{column} {shown} is not above zero")
        message = f"{column} {shown[:SHOWN_CHARACTERS_MAX]} is not a whole number of toman"
        raise LineError(Reason.NOT_A_WHOLE_NUMBER, message)
    digits = digits.lstrip("0")
    if not digits:
        raise LineError(Reason.NOT_ABOVE_ZERO, f"{column} {shown} is not above zero")
    if len(digits) > len(str(AMOUNT_MAX)) or int(digits) > AMOUNT_MAX:
        message = f"{column} is more than {AMOUNT_MAX:,} toman"
        raise LineError(Reason.TOO_LARGE, message)
    return int(digits)
