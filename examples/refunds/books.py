"""The bank's books: what was paid, and every request and confirmation that it has accepted.

The bank looks at numbers and sums. It does not look at keys, nor whether it has confirmed a request
before: a call that is made twice is done twice, and both stand here. Whoever wants to know what
became of a call asks by its key.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class Step(StrEnum):
    """What an entry is about."""

    PAYMENT = "payment"  # of a customer: what can be refunded
    REQUEST = "request"
    CONFIRM = "confirm"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the books.

    Attributes:
        number: Its own, from 1.
        amount: In toman.
        request: Which request it is about; a request's own number; 0 for a payment.
        key: What the caller named the call.
        reference: The shop's own name for the refund.
    """

    number: int
    step: Step
    transaction_id: str
    amount: int
    request: int = 0
    key: str = ""
    reference: str = ""


class No(StrEnum):
    """Why the bank refuses; the value is stable, the text is for people."""

    MALFORMED = "malformed"
    OTHER_SHOP = "other_shop"
    UNKNOWN_TRANSACTION = "unknown_transaction"
    UNKNOWN_REQUEST = "unknown_request"
    PAID_ALREADY = "paid_already"
    WRONG_AMOUNT = "wrong_amount"
    SUM_EXCEEDED = "sum_exceeded"
    PENDING_REQUEST_EXISTS = "pending_request_exists"

    @property
    def status(self) -> int:
        """The HTTP status that it is answered with."""
        return _STATUS[self]

    @property
    def text(self) -> str:
        """What the bank tells people."""
        return _TEXTS[self]


_STATUS: Final = {
    No.MALFORMED: 400,
    No.OTHER_SHOP: 403,
    No.UNKNOWN_TRANSACTION: 404,
    No.UNKNOWN_REQUEST: 404,
    No.PAID_ALREADY: 409,
    No.WRONG_AMOUNT: 422,
    No.SUM_EXCEEDED: 422,
    No.PENDING_REQUEST_EXISTS: 409,
}
_TEXTS: Final = {
    No.MALFORMED: "درخواست خوانا نیست.",
    No.OTHER_SHOP: "این پذیرنده در این بانک حساب ندارد.",
    No.UNKNOWN_TRANSACTION: "تراکنشی با این شماره پیدا نشد.",
    No.UNKNOWN_REQUEST: "درخواستی با این شماره پیدا نشد.",
    No.PAID_ALREADY: "این تراکنش پیش‌تر ثبت شده است.",
    No.WRONG_AMOUNT: "مبلغ باید عددی درست و بزرگ‌تر از صفر باشد.",
    No.SUM_EXCEEDED: "جمع مبالغ بازگشتی از مبلغ تراکنش بیشتر می‌شود.",
    No.PENDING_REQUEST_EXISTS: "برای این تراکنش درخواستی در انتظار تأیید است.",
}


class RefusalError(Exception):
    """The bank says no, and has done nothing."""

    def __init__(self, why: No) -> None:
        super().__init__(why)
        self.why = why


class Books:
    """The books, in memory and in a file; what is in the file cannot be lost.

    May be called from any thread. A call returns when its entry is on the disk.
    """

    def __init__(self, path: Path) -> None:
        """Open the books, or go on with those that are there."""
        self._entries: list[Entry] = []
        self._paid: dict[str, int] = {}
        self._confirmed: Counter[str] = Counter()
        self._pending: dict[str, int] = {}
        self._requests: dict[int, Entry] = {}
        self._by_key: dict[tuple[Step, str], Entry] = {}
        self._lock = threading.Lock()
        self._disk = threading.Lock()
        self._on_disk = 0
        if path.exists():
            for entry in read(path):
                self._post(entry)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def pay(self, payments: Iterable[tuple[str, int]]) -> int:
        """Take customers' payments in: all of them or none; return how many.

        Raises:
            RefusalError: An amount is none, or there is such a transaction already.
        """
        with self._lock:
            taken = dict(payments)
            for transaction_id, amount in taken.items():
                _require_amount(amount)
                if transaction_id in self._paid:
                    raise RefusalError(No.PAID_ALREADY)
            for transaction_id, amount in taken.items():
                self._write(Entry(self._next(), Step.PAYMENT, transaction_id, amount))
        self._sync()
        return len(taken)

    def request(self, transaction_id: str, amount: int, *, key: str, reference: str) -> Entry:
        """Take a request for a refund; nothing is refunded before it is confirmed.

        Raises:
            RefusalError: The transaction or the amount is wrong, or a request of this transaction
                waits for its confirmation.
        """
        with self._lock:
            _require_amount(amount)
            self._require_room(transaction_id, amount)
            if transaction_id in self._pending:
                raise RefusalError(No.PENDING_REQUEST_EXISTS)
            number = self._next()
            entry = Entry(number, Step.REQUEST, transaction_id, amount, number, key, reference)
            self._write(entry)
        self._sync()
        return entry

    def confirm(self, request: int, *, key: str) -> Entry:
        """Refund what was requested; asked twice, twice, as far as the payment goes.

        Raises:
            RefusalError: There is no such request, or too little is left of the payment.
        """
        with self._lock:
            asked = self._requests.get(request)
            if asked is None:
                raise RefusalError(No.UNKNOWN_REQUEST)
            self._require_room(asked.transaction_id, asked.amount)
            entry = Entry(
                self._next(),
                Step.CONFIRM,
                asked.transaction_id,
                asked.amount,
                request,
                key,
                asked.reference,
            )
            self._write(entry)
        self._sync()
        return entry

    def find(self, step: Step, key: str) -> Entry | None:
        """Return the first entry of a key, None when there is none."""
        return self._by_key.get((step, key))

    def find_request(self, number: int) -> Entry | None:
        """Return a request by its number."""
        return self._requests.get(number)

    def _require_room(self, transaction_id: str, amount: int) -> None:
        if transaction_id not in self._paid:
            raise RefusalError(No.UNKNOWN_TRANSACTION)
        if self._confirmed[transaction_id] + amount > self._paid[transaction_id]:
            raise RefusalError(No.SUM_EXCEEDED)

    def _next(self) -> int:
        return len(self._entries) + 1

    def _write(self, entry: Entry) -> None:
        line = json.dumps(asdict(entry), ensure_ascii=False, separators=(",", ":"))
        os.write(self._file, line.encode() + b"\n")
        self._post(entry)

    def _post(self, entry: Entry) -> None:
        self._entries.append(entry)
        if entry.step is Step.PAYMENT:
            self._paid[entry.transaction_id] = entry.amount
            return
        self._by_key.setdefault((entry.step, entry.key), entry)
        if entry.step is Step.REQUEST:
            self._requests[entry.number] = entry
            self._pending[entry.transaction_id] = entry.number
        else:
            self._confirmed[entry.transaction_id] += entry.amount
            if self._pending.get(entry.transaction_id) == entry.request:
                del self._pending[entry.transaction_id]

    def _sync(self) -> None:
        """Bring what was written to the disk; whoever comes meanwhile is served by the next go."""
        number = len(self._entries)
        with self._disk:
            if self._on_disk < number:
                written = len(self._entries)
                os.fdatasync(self._file)
                self._on_disk = written


def read(path: Path) -> Iterator[Entry]:
    """Read books as they are on the disk."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            fields: dict[str, Any] = json.loads(line)
            fields["step"] = Step(fields["step"])
            yield Entry(**fields)


def _require_amount(amount: int) -> None:
    if amount <= 0:
        raise RefusalError(No.WRONG_AMOUNT)
