"""`ctx.effect()`: one change outside that happens once, though workers die around it.

The intention is committed before the first byte leaves, what came of it afterwards; a run that
meets an intention of which nobody knows the end asks the provider, or an operator, and never just
sends again. The steps are in `worker/sending.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from typing_extensions import TypedDict

from hudhud.domain.effect import KEY_CHARACTERS_MAX, NAME_CHARACTERS_MAX
from hudhud.domain.payload import check_text, load
from hudhud.errors import InvalidJobError, NotSent
from hudhud.worker.provider import Finder, Offer, Provider, check_reconcile, check_seconds
from hudhud.worker.sending import Plan, Sending
from hudhud.worker.steps import Taker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from hudhud.worker.desk import Desk
    from hudhud.worker.run import Run

T = TypeVar("T")

# The effect in whose block this code is: another one inside it would make its end ambiguous.
_inside: ContextVar[str | None] = ContextVar("hudhud_inside_effect", default=None)


class EffectOptions(TypedDict, Generic[T], total=False):
    """What `ctx.effect` may set beside name and provider; see there."""

    key: str
    request: Mapping[str, object]
    reconcile: Offer | Finder[T]
    send_seconds: float
    settle_seconds: float
    repeats: bool


class _Skip(BaseException):
    """The effect is done already; the rest of its block is not needed."""


class Effect(Generic[T]):
    """Enter it with `async with` on the event loop, or with `with` in a plain function.

    Attributes:
        name: Of the effect, within its job.
        key: What to give the provider as its idempotency key; the same in every attempt and
            replay.
        result: Set it to what the provider answered: a JSON value of at most 16 KiB, kept without
            what is named like a secret. If the effect was done before, what was kept then.
        reference: Likewise, the provider's own name for what it did; at most 500 characters.
    """

    def __init__(
        self, run: Run, desk: Desk, provider: Provider[T], *, name: str, options: EffectOptions[T]
    ) -> None:
        """Make an effect; nothing happens before it is entered.

        Raises:
            ConfigError: An option is out of bounds.
            ValueError: The name or the key is empty, too long, or no text the database can keep.
        """
        own_key = options.get("key")
        _check_word("name", name, NAME_CHARACTERS_MAX)
        if own_key is not None:
            _check_word("key", own_key, KEY_CHARACTERS_MAX)
        self.name = name
        self.key = f"{run.root_id}:{name}" if own_key is None else f"{run.tenant_id}:{own_key}"
        self.result: Any = None
        self.reference: str | None = None
        self._run = run
        self._desk = desk
        self._provider = provider
        self._outer: str | None = None
        self._is_inside = False
        self._plan = Plan(
            name,
            self.key,
            _request(run, options),
            options.get("reconcile", provider.reconcile),
            options.get("repeats", False),
            options.get("send_seconds", provider.send_seconds),
            options.get("settle_seconds", provider.settle_seconds),
        )
        check_reconcile(self._plan.reconcile, f"effect {name}")
        check_seconds(self._plan.send_seconds, f"effect {name}: send_seconds")
        check_seconds(self._plan.settle_seconds, f"effect {name}: settle_seconds")
        self._sending = Sending(run, desk, provider, plan=self._plan)
        self._taker = Taker(desk, provider, self.key)

    @property
    def is_done(self) -> bool:
        """Whether it was done before: then asking for `provider` ends the block."""
        return self._sending.is_done

    @property
    def provider(self) -> T:
        """The provider's client. Ask for it right before the call, one call in a block.

        It is the last check before the call, and so the first thing that is skipped: when the
        effect was done before, this ends the block.

        Raises:
            NotSent: It is too late to begin; the effect is tried again with a new intention.
            LeaseLostError: Another worker may have the job by now.
            RuntimeError: It is asked for outside of the block.
        """
        if self._is_inside and self.is_done:
            raise _Skip
        self.check()
        client: T = self._desk.providers[self._provider].client
        self._sending.times_handed_out += 1
        return client

    @property
    def send_seconds_left(self) -> float:
        """How long the sender may still begin to write; for a client's connect time-out."""
        return max(self._sending.send_until - time.monotonic(), 0.0)

    def check(self) -> None:
        """Refuse to begin to write when it is too late, or the lease is lost.

        `provider` does the same. A client that lets you act between connecting and writing should
        call it there: what is not sent late cannot be sent twice.

        Raises:
            NotSent: The time since the intention is over.
            LeaseLostError: Another worker may have the job by now.
            RuntimeError: The block is not entered, or left already.
        """
        if not self._is_inside:
            message = f"the effect {self.name} is used outside of its block: nothing records it"
            raise RuntimeError(message)
        self._run.check()
        if self.send_seconds_left <= 0:
            message = f"the effect {self.name} was not sent within {self._plan.send_seconds:g} s"
            raise NotSent(message)

    async def __aenter__(self) -> Effect[T]:
        self._refuse_nesting()
        try:
            await self._taker.atake(self._sending.entering())
        except BaseException:
            self._sending.stay_out()
            self._deliver_cancel()
            raise
        if self._taker.was_cancelled:
            if not self.is_done:
                # Between the commit of the intention and the call: for sure, nothing was sent.
                await self._desk.shielded(self._taker.atake(self._sending.leaving(NotSent())))
            raise asyncio.CancelledError
        self._deliver_cancel()
        self._enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._leave()
        if self.is_done:
            return _is_skip(error)
        try:
            await self._desk.shielded(self._taker.atake(self._sending.leaving(error)))
        finally:
            self._deliver_cancel()
        return False

    def __enter__(self) -> Effect[T]:
        self._refuse_nesting()
        self._refuse_loop()
        try:
            self._taker.take(self._sending.entering())
        except BaseException:
            self._sending.stay_out()
            raise
        self._enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._leave()
        if self.is_done:
            return _is_skip(error)
        self._taker.take(self._sending.leaving(error))
        return False

    def _enter(self) -> None:
        self.result = self._sending.result
        if isinstance(self._sending.reference, str):
            self.reference = self._sending.reference
        self._outer = _inside.get()
        _inside.set(self.key)
        self._is_inside = True

    def _leave(self) -> None:
        _inside.set(self._outer)
        self._is_inside = False
        self._sending.result = self.result
        self._sending.reference = self.reference

    def _refuse_nesting(self) -> None:
        outer = _inside.get()
        if outer is not None:
            message = f"the effect {self.name} is inside the block of {outer}: leave that first"
            raise RuntimeError(message)

    def _refuse_loop(self) -> None:
        """Refuse what would block the event loop, or could find out nothing."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            message = "an async handler enters an effect with `async with`"
            raise RuntimeError(message)
        reached = self._desk.providers.get(self._provider)
        is_asked = reached is not None and reached.known is None
        if is_asked and inspect.iscoroutinefunction(self._plan.reconcile):
            message = f"effect {self.name}: a plain function needs a plain reconcile function"
            raise TypeError(message)

    def _deliver_cancel(self) -> None:
        """Stop the run that was asked to stop while it was in an effect."""
        if self._run.ending == "cancel" and not self._run.is_in_effect:
            self._desk.interrupt(self._run)


def _request(run: Run, options: EffectOptions[Any]) -> object:
    request = options.get("request")
    return load(run.batch.claimed.payloads[run.index]) if request is None else request


def _check_word(word: str, text: str, characters_max: int) -> None:
    if not 0 < len(text) <= characters_max:
        message = f"an effect's {word} has 1 to {characters_max} characters, not {text[:50]!r}"
        raise ValueError(message)
    try:
        check_text(text, f"an effect's {word}")
    except InvalidJobError as error:
        raise ValueError(str(error)) from error


def _is_skip(error: BaseException | None) -> bool:
    """Whether a block ended because its effect was done, in whatever task group that was."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.split(_Skip)[1] is None
    return isinstance(error, _Skip)
