"""The refunds example in tests: files to be taken in, and a bank in a thread that does as told."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
from typing_extensions import override

from examples.refunds import books, intake, sheet
from examples.refunds.bank import Bank, Refund
from examples.refunds.bank_server import Bank as BankServer
from examples.refunds.bank_server import Manner, Mood
from examples.refunds.books import Step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from pathlib import Path

    Call = Callable[[Bank], Awaitable[Any]]

SHOP = "a shop"
HEAD = "transaction_id,transaction_amount,refund_amount\n"
OF_A = Refund(SHOP, "our own name", "A", 20_000)


class Scripted(Mood):
    """The moods of a bank that takes its next calls in these manners, and all others well."""

    def __init__(self, *manners: Manner) -> None:
        super().__init__(0, share=0)
        self._script = list(manners)

    @override
    def manner(self, step: str, about: str, *, is_question: bool = False) -> Manner:
        return self._script.pop(0) if self._script and not is_question else Manner.WELL


@contextmanager
def served(ledger: books.Books, *manners: Manner) -> Generator[BankServer]:
    """Serve a bank from a thread of this process."""
    with BankServer(ledger, Scripted(*manners), shop=SHOP) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def call(url: str, *calls: Call) -> Any:  # noqa: ANN401 - whatever the last call answers
    """Call a bank as a worker does."""

    async def run() -> list[Any]:
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=5) as http:
            return [await one(Bank(http)) for one in calls]

    return asyncio.run(run())[-1]


def request(refund: Refund = OF_A, key: str = "k1") -> Call:
    """Request a refund, without a last check."""
    return lambda bank: bank.request(refund, key=key, check=_nothing)


def confirm(number: int, key: str = "k2") -> Call:
    """Confirm a request, without a last check."""
    return lambda bank: bank.confirm(OF_A, number, key=key, check=_nothing)


def read(tmp_path: Path, content: bytes | str) -> sheet.Sheet:
    """Read a file of this content."""
    path = tmp_path / "refunds.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return sheet.read(path)


def take_in(url: str, tmp_path: Path, *lines: str, shop: str = SHOP) -> intake.Intake:
    """Take a file of these lines in, and commit."""
    with psycopg.connect(url) as connection:
        return intake.take_in(connection, shop, read(tmp_path, HEAD + "\n".join(lines)))


def query(url: str, text: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with psycopg.connect(url) as connection:
        return connection.execute(text.encode()).fetchall()


def accepted(path: Path) -> list[books.Entry]:
    """Return what a bank's books say of refunds."""
    return [entry for entry in books.read(path) if entry.step is not Step.PAYMENT]


def _nothing() -> None:
    """Check nothing."""
