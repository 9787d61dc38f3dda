"""A bank for tests of effects: it acts, loses replies, and never knows a key again by itself."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


class LostReplyError(Exception):
    """The bank acted, and the connection broke before it said so."""


class Payment(NamedTuple):
    """One accepted call."""

    key: str
    amount: int


class Bank:
    """What a provider's client looks like, with its ledger beside it.

    Attributes:
        ledger: What the bank did, in order.
        asked: The keys that it was asked after.
        faults: What happens at the next calls, one each: called before the bank acts, it may raise;
            what it returns is called after.
    """

    def __init__(self) -> None:
        self.ledger: list[Payment] = []
        self.asked: list[str] = []
        self.faults: list[Callable[[], Callable[[], Any] | None]] = []

    async def pay(self, amount: int, *, key: str) -> dict[str, Any]:
        """Pay, as an async client would."""
        return self.pay_now(amount, key=key)

    def pay_now(self, amount: int, *, key: str) -> dict[str, Any]:
        """Pay, as a plain client would."""
        after = self.faults.pop(0)() if self.faults else None
        self.ledger.append(Payment(key, amount))
        if after is not None:
            after()
        return {"number": len(self.ledger)}

    async def find(self, key: str) -> dict[str, Any] | None:
        """Say what became of a key, as an async client would."""
        return self.find_now(key)

    def find_now(self, key: str) -> dict[str, Any] | None:
        """Say what became of a key, as a plain client would."""
        self.asked.append(key)
        for number, payment in enumerate(self.ledger, start=1):
            if payment.key == key:
                return {"number": number}
        return None

    def lose_reply(self) -> None:
        """Act on the next call, and break the connection."""
        self.faults.append(lambda: _lose)

    def fail_with(self, error: BaseException) -> None:
        """Raise this at the next call instead of acting."""

        def fail() -> None:
            raise error

        self.faults.append(fail)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Bank]:
        """Open itself, as a provider's `open`."""
        yield self


def _lose() -> None:
    raise LostReplyError
