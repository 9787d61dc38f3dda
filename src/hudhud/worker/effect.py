"""`ctx.effect()`: one change outside that happens once, though workers die around it.

The intention is committed before the first byte leaves, what came of it afterwards; a run that
meets an intention of which nobody knows the end asks the provider, or an operator, and never just
sends again. The protocol is written once, as steps; `worker/steps.py` takes them on the event loop
or in a thread.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import psycopg
from typing_extensions import TypedDict

from hudhud.domain.effect import KEY_CHARACTERS_MAX, NAME_CHARACTERS_MAX, fingerprint
from hudhud.domain.payload import RESULT_BYTES_MAX, dump_value
from hudhud.domain.redact import code_of, without_secrets
from hudhud.errors import HudhudError, LeaseLostError, NotSent, Permanent, Refused, Snooze, TryLater
from hudhud.failpoint import reach
from hudhud.store import effects
from hudhud.telemetry import emit
from hudhud.worker.link import as_uuid
from hudhud.worker.provider import Finder, Offer, Provider, check_reconcile, check_seconds
from hudhud.worker.run import OpenEffect, Run
from hudhud.worker.steps import Ask, Pause, Taker

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from types import TracebackType

    from hudhud.store.call import Call
    from hudhud.store.effects import Intended
    from hudhud.worker.desk import Desk
    from hudhud.worker.steps import Step, Steps

T = TypeVar("T")

# How long to go on trying to record what came of a call while the database is away.
RECORD_SECONDS: Final = 15.0
RECORD_PAUSE_SECONDS: Final = 0.25


class EffectOptions(TypedDict, Generic[T], total=False):
    """What `ctx.effect` may set beside name and provider; see there."""

    key: str
    request: Mapping[str, object]
    reconcile: Offer | Finder[T]
    send_seconds: float
    settle_seconds: float
    repeats: bool


class SettlingError(Snooze):
    """The effect may still be under way. The job runs again when the provider has settled."""

    default_code = "effect_settling"


class HeldError(Snooze):
    """Nobody can be asked whether the effect happened. An operator decides: `hudhud effects`."""

    default_code = "effect_unknown"


class _Skip(BaseException):
    """The effect is done already."""


class Effect(Generic[T]):
    """Enter it with `async with` on the event loop, or with `with` in a plain function.

    Attributes:
        name: Of the effect, within its job.
        key: What to give the provider as its idempotency key; the same in every attempt and
            replay.
        result: Set it to what the provider answered: a JSON value of at most 16 KiB, kept without
            what is named like a secret. If the effect was done before, what was kept then.
        reference: Likewise, the provider's own name for what it did.
        is_done: Whether it was done before: then asking for `provider` ends the block.
    """

    def __init__(
        self, run: Run, desk: Desk, provider: Provider[T], *, name: str, options: EffectOptions[T]
    ) -> None:
        """Make an effect; nothing happens before it is entered.

        Raises:
            ConfigError: An option is out of bounds.
            ValueError: The name or the key is empty or too long.
        """
        own_key = options.get("key")
        self.name = name
        self.key = f"{run.root_id}:{name}" if own_key is None else f"{run.tenant_id}:{own_key}"
        self.result: Any = None
        self.reference: str | None = None
        self.is_done = False
        self._run = run
        self._desk = desk
        self._provider = provider
        self._repeats = options.get("repeats", False)
        self._reconcile = options.get("reconcile", provider.reconcile)
        self._send_seconds = options.get("send_seconds", provider.send_seconds)
        self._settle_seconds = options.get("settle_seconds", provider.settle_seconds)
        self._request = options.get("request")
        self._intended: Intended | None = None
        self._send_until = 0.0
        self._is_handed_out = False
        # An earlier send may have been done: that this one was not says nothing about it.
        self._follows_unknown = False
        self._taker = Taker(desk, provider, self.key)
        self._check_options()

    @property
    def provider(self) -> T:
        """The provider's client. Ask for it right before each call: it is the last check.

        Raises:
            NotSent: It is too late to begin; the effect is tried again with a new intention.
            LeaseLostError: Another worker may have the job by now.
        """
        if self.is_done:
            raise _Skip
        self.check()
        client: T = self._desk.providers[self._provider].client
        self._is_handed_out = True
        return client

    @property
    def send_seconds_left(self) -> float:
        """How long the sender may still begin to write; for a client's connect time-out."""
        return max(self._send_until - time.monotonic(), 0.0)

    def check(self) -> None:
        """Refuse to begin to write when it is too late, or the lease is lost.

        `provider` does the same. A client that lets you act between connecting and writing should
        call it there: what is not sent late cannot be sent twice.

        Raises:
            NotSent: The time since the intention is over.
            LeaseLostError: Another worker may have the job by now.
        """
        assert self._intended is not None, "an effect is used inside its block"
        self._run.check()
        if time.monotonic() >= self._send_until:
            message = f"the effect {self.name} was not sent within {self._send_seconds:g} s"
            raise NotSent(message)

    async def __aenter__(self) -> Effect[T]:
        try:
            await self._taker.atake(self._entering())
        except BaseException:
            self._stay_out()
            raise
        if self._taker.was_cancelled:
            # Between the commit of the intention and the call: for sure, nothing was sent.
            await self._desk.shielded(self._taker.atake(self._leaving(NotSent())))
            raise asyncio.CancelledError
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if self.is_done:
            return isinstance(error, _Skip)
        await self._desk.shielded(self._taker.atake(self._leaving(error)))
        if error is None and self._run.ending == "cancel":
            raise asyncio.CancelledError
        return False

    def __enter__(self) -> Effect[T]:
        try:
            self._taker.take(self._entering())
        except BaseException:
            self._stay_out()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if self.is_done:
            return isinstance(error, _Skip)
        self._taker.take(self._leaving(error))
        return False

    def _check_options(self) -> None:
        for word, text, characters_max in (
            ("name", self.name, NAME_CHARACTERS_MAX),
            ("key", self.key, KEY_CHARACTERS_MAX),
        ):
            if not 0 < len(text) <= characters_max:
                message = f"an effect's {word} has 1 to {characters_max} characters, not {text!r}"
                raise ValueError(message)
        check_reconcile(self._reconcile, f"effect {self.name}")
        check_seconds(self._send_seconds, f"effect {self.name}: send_seconds")
        check_seconds(self._settle_seconds, f"effect {self.name}: settle_seconds")

    def _entering(self) -> Steps:
        self._run.check()
        known = self._run.effects.get(self.key)
        if known is not None and known.is_under_way:
            message = f"the effect {self.key} is open already; give the other a name of its own"
            raise RuntimeError(message)
        reach("effect.entered")
        found = yield from self._intend()
        if found.verdict == "open":
            yield from self._look_into(found)

    def _intend(self, after_send: int | None = None) -> Generator[Step, Any, Intended]:
        """Commit the intention; afterwards the block may send, is done, or knows of an open one."""
        run = self._run
        asked_at = time.monotonic()
        send_seconds = max(min(self._send_seconds, run.deadline - asked_at), 0.0)
        intention = effects.Intention(
            run.batch.lease_id,
            run.index + 1,
            run.tenant_id,
            self.key,
            self.name,
            self._provider.name,
            self._reconcile if isinstance(self._reconcile, str) else "queryable",
            fingerprint(self._provider.name, self._request_text()),
            run.root_id,
            send_seconds,
            self._settle_seconds,
        )
        found: Intended = yield effects.intend(intention, after_send=after_send)
        match found.verdict:
            case "send":
                self._intended = found
                # From before the question, so that the database's own time is never less.
                self._send_until = asked_at + send_seconds
                self._open(self._send_until + self._settle_seconds, is_under_way=True)
                reach("effect.intended")
            case "done":
                self._keep(found.result, found.reference)
            case "lost":
                raise LeaseLostError
            case "cancelled":
                yield from self._give_up(after_send, found)
            case "open":
                pass
        return found

    def _look_into(self, found: Intended) -> Steps:
        """Find out what became of an intention whose end nobody recorded."""
        is_stand_in = self._desk.providers[self._provider].known is not None
        wait_seconds = 0.0 if is_stand_in else found.wait_seconds
        self._open(time.monotonic() + wait_seconds, is_under_way=False)
        if wait_seconds > 0:
            message = f"what became of the effect {self.name} is looked into when it has settled"
            raise SettlingError(wait_seconds, message)
        if self._reconcile == "none" and not self._repeats:
            self._run.effects[self.key].held = as_uuid(found.effect_id)
            emit("effect.held", effect_id=as_uuid(found.effect_id), name=self.name)
            message = f"an operator must decide what became of the effect {self.name}"
            raise HeldError(0, message)
        self._open(time.monotonic(), is_under_way=True)
        answer = None
        self._follows_unknown = isinstance(self._reconcile, str)
        if not isinstance(self._reconcile, str):
            answer = yield Ask(self._reconcile)
        emit(
            "effect.reconciled",
            name=self.name,
            provider=self._provider.name,
            found=answer is not None,
        )
        if answer is None:
            yield from self._intend(after_send=found.sends)
            return
        self._intended = found
        self.result = answer
        yield from self._record("done")
        self.is_done = True

    def _give_up(self, after_send: int | None, found: Intended) -> Steps:
        """Stop before anything is sent, because somebody asked for the job's end."""
        if after_send is not None:
            self._intended = found
            yield from self._record("not_done", "cancelled")
        self._run.ending = self._run.ending or "cancel"
        raise asyncio.CancelledError

    def _leaving(self, error: BaseException | None) -> Steps:
        """Record what came of the block."""
        not_done = "unknown" if self._follows_unknown else "not_done"
        if self._is_handed_out:
            reach("effect.called")
        if not self._is_handed_out:
            # The client was never asked for, so nothing can have been sent.
            yield from self._record(not_done, "not_sent")
        elif error is None:
            yield from self._record("done")
        elif isinstance(error, NotSent | Refused | TryLater):
            yield from self._record(not_done, error.code)
        else:
            yield from self._record("unknown", code_of(type(error).__name__))

    def _record(self, state: str, code: str | None = None) -> Steps:
        """Write down how the effect stands; while the database is away, again and again."""
        found = self._intended
        assert found is not None
        text, refusal = self._result_text() if state == "done" else (None, None)
        closing = effects.Closing(
            state,
            code if refusal is None else "result_refused",
            reference=self.reference if state == "done" else None,
            result=text,
            settle_seconds=self._settle_seconds if state == "unknown" else None,
        )
        call = effects.close_effect(as_uuid(found.effect_id), found.sends, closing)
        is_recorded = yield from self._insist(call)
        emit(
            "effect.recorded", name=self.name, provider=self._provider.name, state=state, code=code
        )
        if not is_recorded:
            emit("effect.overtaken", effect_id=as_uuid(found.effect_id), state=state)
        if state == "unknown":
            self._open(time.monotonic() + self._settle_seconds, is_under_way=False)
        else:
            self._run.close_effect(self.key)
        reach("effect.recorded")
        if refusal is not None:
            # The effect is known to be done; a result that is lost each time helps nobody.
            raise Permanent(str(refusal), code="result_refused") from refusal

    def _insist(self, call: Call[bool]) -> Generator[Step, Any, bool]:
        until = time.monotonic() + RECORD_SECONDS
        while True:
            try:
                is_recorded: bool = yield call
            except (psycopg.OperationalError, psycopg.InterfaceError):
                if time.monotonic() >= until:
                    raise
                yield Pause(RECORD_PAUSE_SECONDS)
            else:
                return is_recorded

    def _keep(self, result: object, reference: str | None) -> None:
        self.is_done = True
        self.result = result
        self.reference = reference
        self._run.close_effect(self.key)

    def _open(self, reconcile_at: float, *, is_under_way: bool) -> None:
        self._run.open_effect(self.key, OpenEffect(is_under_way, reconcile_at))

    def _stay_out(self) -> None:
        """Take note that the block is not entered; an effect that is open stays open."""
        known = self._run.effects.get(self.key)
        if known is not None:
            known.is_under_way = False

    def _request_text(self) -> str:
        if self._request is None:
            return self._run.batch.claimed.payloads[self._run.index]
        return dump_value(dict(sorted(self._request.items())))

    def _result_text(self) -> tuple[str | None, HudhudError | None]:
        try:
            text = dump_value(without_secrets(self.result), bytes_max=RESULT_BYTES_MAX)
        except HudhudError as error:
            return None, error
        return text, None
