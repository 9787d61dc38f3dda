"""How an application says which events there are, and who wants them: the decorators for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from hudhud.worker.outbox import Outbox, upcaster_of
from hudhud.worker.subscription import Subscription, SubscriptionOptions, subscribe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Unpack

    from hudhud.domain.event import Event
    from hudhud.domain.upcast import Upcast

C = TypeVar("C", bound=type)
R = TypeVar("R")
U = TypeVar("U", bound="Upcast")


class Declarations:
    """The part of `Hudhud` by which events are declared and subscribed to.

    Attributes:
        outbox: What was declared so far.
    """

    outbox: Outbox

    def event(
        self,
        type: str,  # noqa: A002 - the word for it, everywhere
        *,
        version: int = 1,
        personal: str | None = None,
        sample: Mapping[str, object] | None = None,
    ) -> Callable[[C], C]:
        """Declare a version of an event type: `@app.event("comment.created")` on a class.

        The class's annotations are the payload's contract; the database checks every publish by
        it, from any language. Annotate a field that tells something about a person `Personal[…]`.

        Args:
            type: Of the event, in the past tense: what happened.
            version: Of the payload's contract.
            personal: Why personal fields must be in the payload; without it they are refused.
            sample: A payload of this version to keep, for the test of upcasters.

        Raises:
            ConfigError: A field cannot be carried, the sample does not fit, or there is a contract
                for this version already.
        """

        def declare(contract: C) -> C:
            self.outbox.declare(type, contract, version=version, personal=personal, sample=sample)
            return contract

        return declare

    def on(
        self,
        type: str,  # noqa: A002 - as above
        *,
        version: int | None = None,
        name: str | None = None,
        start: str | int = "now",
        **options: Unpack[SubscriptionOptions],
    ) -> Callable[[Callable[[Any, Event], R]], Subscription[R]]:
        """Subscribe to an event type: `@app.on("comment.created")` on a function of ctx and event.

        Each event becomes exactly one job of the subscription, in the same database; that job is
        run as any, at least once. `async def` runs on the event loop, a plain function in a thread.

        Args:
            type: Of the events.
            version: Of the payload that the function gets; None: the newest that is declared.
                Older ones are upcast, newer ones wait for a worker that knows them.
            name: Keeps the subscription's place; None: the type and the function's name.
            start: Where a new subscription begins: "now", "beginning", or a position.
            options: How its jobs are run: queue, lane, timeout_seconds,
                max_attempts, max_crashes, retry, errors.

        Raises:
            ConfigError: What can only fail later is refused here.
        """

        def wrap(function: Callable[[Any, Event], R]) -> Subscription[R]:
            wanted = version or self.outbox.newest(type)
            subscription = subscribe(
                type, function, version=wanted, name=name, start=start, **options
            )
            self.outbox.subscribe(subscription)
            return subscription

        return wrap

    def upcaster(
        self,
        type: str,  # noqa: A002 - as above
        version: int,
        *,
        sample: Mapping[str, object],
    ) -> Callable[[U], U]:
        """Define how a payload of `version` is read as one of the next version.

        The function takes the payload and returns the new one, and does nothing else: what is
        stored never changes. `hudhud.testing.check_upcasters` runs every chain on the samples.

        Args:
            type: Of the event.
            version: Of the payload that it takes.
            sample: A payload of that version as it was really published.

        Raises:
            ConfigError: There is one for this version already.
        """

        def add(function: U) -> U:
            self.outbox.add_upcaster(upcaster_of(type, version, function, sample=sample))
            return function

        return add
