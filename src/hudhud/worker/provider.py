"""A provider: one service outside, as effects reach it, and what it offers to who does not know."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

from typing_extensions import TypedDict

from hudhud.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

T = TypeVar("T")

Offer: TypeAlias = Literal["dedups", "replaces", "none"]
Finder: TypeAlias = Callable[[T, str], Any]
"""Asks the provider what became of a key: (client, key) → the result, or None if nothing did.

A coroutine function for async handlers, a plain one for handlers in threads.
"""
AnyProvider: TypeAlias = "Provider[Any]"

SEND_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 30.0
SECONDS_MAX: Final = 86_400.0
OFFERS: Final = ("dedups", "replaces", "none")
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


class ProviderOptions(TypedDict, Generic[T], total=False):
    """What a provider's definition may set; see `Provider`."""

    reconcile: Offer | Finder[T]
    send_seconds: float
    settle_seconds: float


class Reached(NamedTuple, Generic[T]):
    """A provider as a worker reaches it: its opened client, or what stands in for it."""

    client: T
    # Of a stand-in: it knows what became of a key, and what was sent to it has settled at once.
    known: Callable[[str], Any] | None = None

    def ask(self, finder: Finder[T], key: str) -> Any:  # noqa: ANN401 - the finder's own type
        """Ask what became of a key."""
        return finder(self.client, key) if self.known is None else self.known(key)


@dataclass(slots=True, eq=False)
class Provider(Generic[T]):
    """A service outside. Its client is handed out by effects only, so that no call goes unrecorded.

    Attributes:
        name: As it is shown to operators: 1 to 100 of `A-Z a-z 0-9 _ . : -`.
        open: Opens its client for a worker's life.
        reconcile: What it offers when nobody knows whether it acted: `dedups` knows a key again
            and acts once; `replaces` puts the later call in the place of the earlier; a function
            finds out by key; `none` leaves it to an operator.
        send_seconds: How long after the intention the sender may still begin to write.
        settle_seconds: How long after that the provider may still act: before it has passed, "not
            found" means nothing.
    """

    name: str
    open: Callable[[], AbstractAsyncContextManager[T]]
    reconcile: Offer | Finder[T] = "none"
    send_seconds: float = SEND_SECONDS
    settle_seconds: float = SETTLE_SECONDS
    _stand_in: Reached[T] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            message = f"provider {self.name!r} must be 1 to 100 of A-Z a-z 0-9 _ . : -"
            raise ConfigError(message)
        check_reconcile(self.reconcile, f"provider {self.name}")
        for word in ("send_seconds", "settle_seconds"):
            check_seconds(getattr(self, word), f"provider {self.name}: {word}")

    @asynccontextmanager
    async def reached(self) -> AsyncGenerator[Reached[T]]:
        """Open the client, or give what stands in for it."""
        if self._stand_in is not None:
            yield self._stand_in
            return
        async with self.open() as client:
            yield Reached(client)

    @contextmanager
    def replaced(self, client: T, find: Callable[[str], Any]) -> Generator[None]:
        """Let something stand in for the service, in tests; see `hudhud.testing.recording`.

        Args:
            client: What effects hand out inside the block; nothing is opened.
            find: What is asked after a key, instead of the effects' own functions, and at once.
        """
        before, self._stand_in = self._stand_in, Reached(client, find)
        try:
            yield
        finally:
            self._stand_in = before


def opener(function: Callable[[], Any]) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """Return how a client is opened: an async generator function becomes a context manager."""
    if inspect.isasyncgenfunction(function):
        return asynccontextmanager(cast("Callable[[], AsyncGenerator[Any]]", function))
    return function


def check_reconcile(reconcile: object, owner: str) -> None:
    """Refuse what is neither an offer nor a function.

    Raises:
        ConfigError: With the owner's name.
    """
    if reconcile not in OFFERS and not callable(reconcile):
        message = (
            f"{owner}: reconcile must be dedups, replaces, none or a function, not {reconcile!r}"
        )
        raise ConfigError(message)


def check_seconds(seconds: float, owner: str) -> None:
    """Refuse what is no duration from 0 to a day.

    Raises:
        ConfigError: With the owner's name.
    """
    if not 0 <= seconds <= SECONDS_MAX:
        message = f"{owner} must be from 0 to {SECONDS_MAX:g}, not {seconds!r}"
        raise ConfigError(message)
