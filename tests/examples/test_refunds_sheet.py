"""What is read of a file of refunds, and what is refused, line by line."""

from __future__ import annotations

import csv
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from examples.refunds import sheet
from examples.refunds.generate import FILE
from examples.refunds.sheet import Reason
from tests.support.refunds import HEAD, read

if TYPE_CHECKING:
    from pathlib import Path


PERSIAN = {ord("0") + n: chr(0x06F0 + n) for n in range(10)}
ARABIC = {ord("0") + n: chr(0x0660 + n) for n in range(10)}


def rows(found: sheet.Sheet) -> list[tuple[str, int, int]]:
    return [(one.transaction_id, one.transaction_amount, one.refund_amount) for one in found.lines]


@pytest.mark.parametrize(
    "content",
    [
        HEAD + "A,100000,20000\nA,100000,50000\n",
        HEAD + "A,100000,20000\nA,100000,50000",
        "\ufeff" + HEAD + "\nA,100000,20000\n\n  \nA,100000,50000\n\n",
        (HEAD + "A,100000,20000\nA,100000,50000\n").replace("\n", "\r\n"),
        (HEAD + "A,100000,20000\nA,100000,50000\n").replace("\n", "\r"),
        (HEAD + "A,100000,20000\nA,100000,50000\n").replace(",", ";"),
        (HEAD + "A,100000,20000\nA,100000,50000\n").replace(",", "\t"),
        "note,Refund_Amount, transaction_amount,TRANSACTION_ID\nx,20000,100000,A\n,50000,100000,A",
        HEAD + '"A","100000","20000"\n A , 100000 , 050000 ,,\n',
        HEAD + "A,100000,20000\n".translate(PERSIAN) + "A,100000,50000\n".translate(ARABIC),
    ],
)
def test_a_file_is_read_as_what_it_says_however_it_is_written(tmp_path: Path, content: str) -> None:
    found = read(tmp_path, content)
    assert rows(found) == [("A", 100_000, 20_000), ("A", 100_000, 50_000)]
    assert not found.refused


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", HEAD])
def test_an_empty_file_asks_for_nothing(tmp_path: Path, content: str) -> None:
    found = read(tmp_path, content)
    assert (found.lines, found.refused) == ([], [])


def test_a_transaction_number_is_the_same_in_persian_and_in_latin_digits(tmp_path: Path) -> None:
    found = read(
        tmp_path, HEAD + "12,9,1\n" + "12,9,1\n".translate(PERSIAN) + "12,9,1\n".translate(ARABIC)
    )
    assert {one.transaction_id for one in found.lines} == {"12"}


@pytest.mark.parametrize(
    ("line", "reason", "told"),
    [
        ("A,100,0", Reason.NOT_ABOVE_ZERO, "refund_amount '0' is not above zero"),
        ("A,100,000", Reason.NOT_ABOVE_ZERO, "not above zero"),
        ("A,100,-5", Reason.NOT_ABOVE_ZERO, "refund_amount '-5' is not above zero"),
        ("A,-100,-5", Reason.NOT_ABOVE_ZERO, "transaction_amount '-100' is not above zero"),
        ("A,100," + "5-".translate(PERSIAN), Reason.NOT_A_WHOLE_NUMBER, "not a whole number"),
        ("A,100,12.5", Reason.NOT_A_WHOLE_NUMBER, "'12.5' is not a whole number of toman"),
        ("A,100,5.0", Reason.NOT_A_WHOLE_NUMBER, "not a whole number"),
        ('A,100,"1,000"', Reason.NOT_A_WHOLE_NUMBER, "'1,000'"),
        ("A,100,1_0", Reason.NOT_A_WHOLE_NUMBER, "'1_0'"),
        ("A,100,+5", Reason.NOT_A_WHOLE_NUMBER, "'+5'"),
        ("A,100,1e1", Reason.NOT_A_WHOLE_NUMBER, "'1e1'"),
        ("A,100,५", Reason.NOT_A_WHOLE_NUMBER, "not a whole number"),
        ("A,100,\u200f5", Reason.NOT_A_WHOLE_NUMBER, r"\u200f"),
        ("A,100,", Reason.NOT_A_WHOLE_NUMBER, "''"),
        ("A,100,NaN", Reason.NOT_A_WHOLE_NUMBER, "'NaN'"),
        ("A,100," + "9" * 5_000, Reason.TOO_LARGE, "more than 1,000,000,000,000,000"),
        ("A,100," + "x" * 5_000, Reason.NOT_A_WHOLE_NUMBER, "x'"),
        (",100,5", Reason.WRONG_TRANSACTION, "1 to 100 characters"),
        ("A" * 101 + ",100,5", Reason.WRONG_TRANSACTION, "1 to 100 characters"),
        ("A\u200fB,100,5", Reason.WRONG_TRANSACTION, "U+200F"),
        ("A\0,100,5", Reason.WRONG_TRANSACTION, "U+0000"),
        ("A,100", Reason.BROKEN_LINE, "has 2 fields"),
        ("A,100,20,000", Reason.BROKEN_LINE, "has 4 fields"),
        ('"A,100,5', Reason.BROKEN_LINE, "cannot be read as CSV"),
        (b"\xff,100,5", Reason.NOT_UTF8, "is not UTF-8"),
    ],
)
def test_a_line_that_cannot_be_taken_is_named_with_its_reason_and_spoils_no_other(
    *, tmp_path: Path, line: bytes | str, reason: Reason, told: str
) -> None:
    bad = line if isinstance(line, bytes) else line.encode()
    found = read(tmp_path, HEAD.encode() + b"B,9,9\n" + bad + b"\nC,9,9\n")
    assert rows(found) == [("B", 9, 9), ("C", 9, 9)]
    [refused] = found.refused
    assert (refused.number, refused.reason) == (3, reason)
    assert told.endswith("x'") or told in refused.message
    assert len(refused.message) < 150


@pytest.mark.parametrize(
    "content",
    [
        "A,100000,20000\n",
        "transaction_id,transaction_amount\nA,1\n",
        "transaction_id,transaction_amount,refund_amount,refund_amount\nA,1,1,1\n",
        HEAD.encode("utf-16"),
        '"transaction_id,transaction_amount,refund_amount\n',
    ],
)
def test_a_file_without_its_columns_is_refused_whole(tmp_path: Path, content: bytes | str) -> None:
    with pytest.raises(sheet.SheetError, match="names the columns transaction_id"):
        read(tmp_path, content)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.csv"
    with path.open("wb") as file:
        file.truncate(sheet.BYTES_MAX + 1)
    with pytest.raises(sheet.SheetError, match="split it"):
        sheet.read(path)


def test_our_own_file_is_as_shops_are() -> None:
    """R13: about 80 % single full refunds; 20,000 and 50,000 of 100,000 stay two."""
    with FILE.open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    found = sheet.read(FILE)
    assert len(found.lines) == len(lines) == 4_000
    assert not found.refused
    times = Counter(one.transaction_id for one in found.lines)
    full = sum(
        times[one.transaction_id] == 1 and one.refund_amount == one.transaction_amount
        for one in found.lines
    )
    assert 0.78 < full / len(lines) < 0.82
    of_a = [one for one in sheet.read(FILE, lines_max=251).lines if one.transaction_id == "A"]
    assert [(one.transaction_amount, one.refund_amount) for one in of_a] == [
        (100_000, 20_000),
        (100_000, 50_000),
    ]
