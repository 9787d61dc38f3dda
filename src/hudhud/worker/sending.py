"""The steps of one effect in one run: intend, look into what is open, record what came of it.

Written without I/O: each step is yielded, and `worker/steps.py` takes it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import psycopg

from hudhud.domain.effect import fingerprint
from hudhud.domain.payload import RESULT_BYTES_MAX, check_text, dump_value
from hudhud.domain.redact import code_of, without_secrets
from hudhud.errors import (
    ConfigError,
    HudhudError,
    LeaseLostError,
    NotSent,
    Permanent,
    Refused,
    Snooze,
    TryLater,
)
from hudhud.failpoint import reach
from hudhud.store import effects
from hudhud.telemetry import emit
from hudhud.worker.link import as_uuid
from hudhud.worker.run import OpenEffect, Run
from hudhud.worker.steps import Ask, Pause

if TYPE_CHECKING:
    from collections.abc import Generator

    from hudhud.store.call import Call
    from hudhud.store.effects import Intended
    from hudhud.worker.desk import Desk
    from hudhud.worker.provider import AnyProvider, Finder, Offer
    from hudhud.worker.steps import Step, Steps

# How long to go on trying to record what came of a call while the database is away.
RECORD_SECONDS: Final = 15.0
PAUSE_SECONDS: Final = 0.25
REFERENCE_CHARACTERS_MAX: Final = 500
# How long a provider is left alone that does not know itself and does not say for how long.
ASK_AGAIN_SECONDS: Final = 5.0


class SettlingError(Snooze):
    """The effect may still be under way. The job runs again when the provider has settled."""

    default_code = "effect_settling"


class HeldError(Snooze):
    """Nobody can be asked whether the effect happened. An operator decides: `hudhud effects`."""

    default_code = "effect_unknown"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done outside.

    Attributes:
        name: Of the effect, within its job.
        key: Unique in the tenant.
        request: What tells it from another under the same key, a JSON value.
        reconcile: What the provider offers to who does not know.
        repeats: Whether a second time does no harm.
        send_seconds: How long after the intention the sender may begin to write.
        settle_seconds: How long after that the provider may act.
    """

    name: str
    key: str
    request: object
    reconcile: Offer | Finder[Any]
    repeats: bool
    send_seconds: float
    settle_seconds: float


class Sending:
    """One effect of one run, on its way.

    Attributes:
        is_done: Whether it was done before: then nothing is sent.
        result: What was kept of it then; set before `leaving` to what is to be kept.
        reference: Likewise, the provider's own name for it.
        send_until: Monotonic second from which nothing may be sent any more.
        times_handed_out: How often the client was asked for in the block.
    """

    def __init__(self, run: Run, desk: Desk, provider: AnyProvider, *, plan: Plan) -> None:
        self.is_done = False
        self.result: Any = None
        self.reference: object = None
        self.send_until = 0.0
        self.times_handed_out = 0
        self._run = run
        self._desk = desk
        self._provider = provider
        self._plan = plan
        self._intended: Intended | None = None
        # An earlier send may have been done: that this one was not says nothing about it.
        self._follows_unknown = False

    @property
    def is_intended(self) -> bool:
        """Whether an intention of this block is open."""
        return self._intended is not None

    def entering(self) -> Steps:
        """Intend, or find it done, or find out what became of it.

        Raises:
            LeaseLostError: The run may not go on.
            EffectMismatchError: The key was used for another request.
            SettlingError, HeldError: It is open, and cannot be looked into yet, or not by us.
            RuntimeError, ConfigError: It is used where it cannot be.
        """
        self._refuse_misuse()
        reach("effect.entered")
        found = yield from self._intend()
        if found.verdict == "open":
            yield from self._look_into(found)

    def leaving(self, error: BaseException | None) -> Steps:
        """Record what came of the block.

        Raises:
            Permanent: It is done, but the result cannot be kept.
            psycopg.OperationalError: The database was away for too long.
        """
        if self.times_handed_out:
            reach("effect.called")
        if error is None and self.times_handed_out:
            yield from self._record("done")
        elif (code := self._not_done_by(error)) and not self._follows_unknown:
            yield from self._record("not_done", code)
        else:
            yield from self._record("unknown", code or code_of(type(error).__name__))

    def stay_out(self) -> None:
        """Take note that the block is not entered; an effect that is open stays open."""
        known = self._run.effects.get(self._plan.key)
        if known is not None:
            known.is_under_way = False

    def _not_done_by(self, error: BaseException | None) -> str | None:
        """Return the code of what says that this send did nothing; None if nothing says so.

        What a second call in one block says, it says about itself.
        """
        if not self.times_handed_out:
            return "not_sent"
        if isinstance(error, NotSent | Refused | TryLater) and self.times_handed_out == 1:
            return error.code
        return None

    def _refuse_misuse(self) -> None:
        run, key = self._run, self._plan.key
        run.check()
        if self._provider not in self._desk.providers:
            message = f"{self._provider.name} is no provider of this application: app.provider(…)"
            raise ConfigError(message)
        problem = None
        if run.has_committed or run.in_transaction:
            problem = "ctx.transaction() ends this job: its effects come before that."
        elif key in run.effects and run.effects[key].is_under_way:
            problem = f"the effect {key} is open already; give the other a name of its own"
        elif run.has_done(key):
            problem = f"this run has done the effect {key}; give each turn a name of its own"
        if problem is not None:
            raise RuntimeError(problem)

    def _intend(self, after_send: int | None = None) -> Generator[Step, Any, Intended]:
        """Commit the intention; afterwards the block may send, or is done, or one is open."""
        run, plan = self._run, self._plan
        asked_at = time.monotonic()
        # From before the question, so that the database's own time is never less.
        self.send_until = asked_at + max(min(plan.send_seconds, run.deadline - asked_at), 0.0)
        intention = effects.Intention(
            run.batch.lease_id,
            run.index + 1,
            run.tenant_id,
            plan.key,
            plan.name,
            self._provider.name,
            plan.reconcile if isinstance(plan.reconcile, str) else "queryable",
            fingerprint(plan.request),
            run.root_id,
            self.send_until - asked_at,
            plan.settle_seconds,
            uuid4(),
        )
        # Before it is asked: who loses the answer does not know whether it was committed.
        self._open(self.send_until + plan.settle_seconds, is_under_way=True)
        try:
            found: Intended = yield from self._insist(
                effects.intend(intention, after_send=after_send), until=self.send_until
            )
        except HudhudError:
            run.close_effect(plan.key)
            raise
        yield from self._take_verdict(found, after_send)
        return found

    def _take_verdict(self, found: Intended, after_send: int | None) -> Steps:
        match found.verdict:
            case "send":
                self._intended = found
                reach("effect.intended")
            case "done":
                self.is_done = True
                self.result, self.reference = found.result, found.reference
                self._run.close_effect(self._plan.key, is_done=True)
            case "lost":
                self._run.close_effect(self._plan.key)
                raise LeaseLostError
            case "cancelled":
                yield from self._give_up(found, was_looked_into=after_send is not None)
            case "open":
                pass

    def _look_into(self, found: Intended) -> Steps:
        """Find out what became of an intention whose end nobody recorded."""
        name, reconcile = self._plan.name, self._plan.reconcile
        is_stand_in = self._desk.providers[self._provider].known is not None
        wait_seconds = 0.0 if is_stand_in else found.wait_seconds
        self._open(time.monotonic() + wait_seconds, is_under_way=False)
        if wait_seconds > 0:
            message = f"what became of the effect {name} is looked into when it has settled"
            raise SettlingError(wait_seconds, message)
        if found.of_provider != self._provider.name:
            message = f"the effect {name} was asked of {found.of_provider}: an operator must decide"
            raise self._held(found, message)
        if reconcile == "none" and not self._plan.repeats:
            raise self._held(found, f"an operator must decide what became of the effect {name}")
        self._open(time.monotonic(), is_under_way=True)
        answer = None
        self._follows_unknown = isinstance(reconcile, str)
        if not isinstance(reconcile, str):
            answer = yield from self._ask(reconcile)
        is_found = answer is not None
        emit("effect.reconciled", name=name, provider=self._provider.name, found=is_found)
        if not is_found:
            yield from self._intend(after_send=found.sends)
            return
        self._intended = found
        self.result = answer
        yield from self._record("done")
        self.is_done = True

    def _ask(self, finder: Finder[Any]) -> Generator[Step, Any, Any]:
        try:
            return (yield Ask(finder))
        except TryLater as error:
            # The provider does not know itself yet: no attempt has failed.
            message = f"the provider does not know yet what became of the effect {self._plan.name}"
            raise SettlingError(error.after_seconds or ASK_AGAIN_SECONDS, message) from error

    def _held(self, found: Intended, message: str) -> HeldError:
        effect_id = as_uuid(found.effect_id)
        self._run.effects[self._plan.key].held_id = effect_id
        emit("effect.held", effect_id=effect_id, name=self._plan.name)
        return HeldError(0, message)

    def _give_up(self, found: Intended, *, was_looked_into: bool) -> Steps:
        """Stop before anything is sent, because somebody asked for the job's end."""
        if was_looked_into:
            self._intended = found
            yield from self._record("not_done", "cancelled")
        self._run.close_effect(self._plan.key)
        self._run.ending = self._run.ending or "cancel"
        self._desk.interrupt(self._run)
        raise asyncio.CancelledError

    def _record(self, state: str, code: str | None = None) -> Steps:
        """Write down how the effect stands; while the database is away, again and again."""
        assert self._intended is not None
        closing, refusal = self._closing(state, code)
        try:
            is_recorded = yield from self._insist(self._close(closing))
        except (psycopg.Error, ValueError) as error:
            if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                raise
            # Something in the result that only the database refuses: what is done is done.
            refusal = error
            closing = effects.Closing(state, "result_refused")
            is_recorded = yield from self._insist(self._close(closing))
        self._note(closing, is_recorded=is_recorded)
        reach("effect.recorded")
        if refusal is not None:
            # The effect is known to be done; a result that is lost each time helps nobody.
            raise Permanent(str(refusal), code="result_refused") from refusal

    def _note(self, closing: effects.Closing, *, is_recorded: bool) -> None:
        plan, state = self._plan, closing.state
        emit(
            "effect.recorded",
            name=plan.name,
            provider=self._provider.name,
            state=state,
            code=closing.code,
        )
        if not is_recorded and self._intended is not None:
            emit("effect.overtaken", effect_id=as_uuid(self._intended.effect_id), state=state)
        if state == "unknown":
            self._open(time.monotonic() + plan.settle_seconds, is_under_way=False)
        else:
            self._run.close_effect(plan.key, is_done=state == "done")

    def _closing(self, state: str, code: str | None) -> tuple[effects.Closing, Exception | None]:
        if state != "done":
            settle_seconds = self._plan.settle_seconds if state == "unknown" else None
            return effects.Closing(state, code, settle_seconds=settle_seconds), None
        try:
            reference = None if self.reference is None else _reference(self.reference)
            dump_value(self.result)  # of bounded depth: what follows need not fear it
            result = dump_value(without_secrets(self.result), bytes_max=RESULT_BYTES_MAX)
        except HudhudError as error:
            return effects.Closing(state, "result_refused"), error
        return effects.Closing(state, reference=reference, result=result), None

    def _close(self, closing: effects.Closing) -> Call[bool]:
        assert self._intended is not None
        return effects.close_effect(
            as_uuid(self._intended.effect_id), self._intended.sends, closing
        )

    def _insist(self, call: Call[Any], *, until: float | None = None) -> Generator[Step, Any, Any]:
        until = time.monotonic() + RECORD_SECONDS if until is None else until
        while True:
            try:
                return (yield call)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                if time.monotonic() >= until:
                    raise
                yield Pause(PAUSE_SECONDS)

    def _open(self, reconcile_at: float, *, is_under_way: bool) -> None:
        self._run.open_effect(self._plan.key, OpenEffect(is_under_way, reconcile_at))


def _reference(reference: object) -> str:
    if not isinstance(reference, str) or len(reference) > REFERENCE_CHARACTERS_MAX:
        message = f"effect.reference must be text of at most {REFERENCE_CHARACTERS_MAX} characters"
        raise Permanent(message, code="result_refused")
    check_text(reference, "effect.reference")
    return reference
