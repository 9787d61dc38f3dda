"""The judge: our record of the refunds beside the bank's own books, which decide."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from examples.refunds.books import Entry, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Recorded:
    """A refund as our own tables have it."""

    reference: str
    line: int
    transaction_id: str
    amount: int
    state: str
    confirmation: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the bank's books say about the refunds that we recorded.

    Attributes:
        confirmed: Refunds that the bank has made, once or more often.
        doubled: Confirmations beyond the first of a refund.
        missing: Refunds that it has not made.
        wrong: Confirmations of what we never recorded, or of another amount or transaction, and
            refunds of which our own record says otherwise than the books.
        toman: What it has sent back.
    """

    confirmed: int
    doubled: int
    missing: int
    wrong: int
    toman: int


def judge(ours: Sequence[Recorded], books: Iterable[Entry]) -> Verdict:
    """Compare."""
    made = confirmations(books)
    recorded = {one.reference: one for one in ours}
    entries = [entry for found in made.values() for entry in found]
    confirmed = sum(1 for one in ours if made.get(one.reference))
    strange = sum(1 for entry in entries if not _fits(recorded.get(entry.reference), entry))
    otherwise = sum(1 for one in ours if not _agrees(one, made.get(one.reference, ())))
    return Verdict(
        confirmed=confirmed,
        doubled=sum(len(found) - 1 for found in made.values()),
        missing=len(ours) - confirmed,
        wrong=strange + otherwise,
        toman=sum(entry.amount for entry in entries),
    )


def confirmations(books: Iterable[Entry]) -> Mapping[str, list[Entry]]:
    """Return the bank's confirmations by our reference, in their order."""
    made: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in books:
        if entry.step is Step.CONFIRM:
            made[entry.reference].append(entry)
    return made


def beside(transaction_id: str, ours: Sequence[Recorded], books: Sequence[Entry]) -> Iterator[str]:
    """Yield the lines that show a transaction in both ledgers, side by side, and their sums."""
    left = [one for one in ours if one.transaction_id == transaction_id]
    right = [
        entry
        for entry in books
        if entry.step is Step.CONFIRM and entry.transaction_id == transaction_id
    ]
    yield from table(
        f"transaction {transaction_id}",
        [f"line {one.line}: {one.amount:,} {one.state}" for one in left],
        [f"no. {one.number}: {one.amount:,} for request {one.request}" for one in right],
    )
    yield from table(
        "in all",
        [f"{len(left)} refunds, {sum(one.amount for one in left):,} toman"],
        [f"{len(right)} confirmations, {sum(one.amount for one in right):,} toman"],
    )


def table(title: str, left: Iterable[str], right: Iterable[str]) -> Iterator[str]:
    """Yield lines with our ledger left and the bank's right."""
    for number, (ours, theirs) in enumerate(zip_longest(left, right, fillvalue="-")):
        yield f"{'' if number else title:<26} | {ours:<32} | {theirs}"


def _fits(recorded: Recorded | None, entry: Entry) -> bool:
    return recorded is not None and (recorded.transaction_id, recorded.amount) == (
        entry.transaction_id,
        entry.amount,
    )


def _agrees(recorded: Recorded, made: Sequence[Entry]) -> bool:
    """Whether our record says what the books say: which confirmation, or none."""
    return recorded.confirmation == (made[0].number if made else None)
