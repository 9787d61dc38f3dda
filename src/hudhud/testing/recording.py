"""A provider that records what it is asked to do, and fails when it is told to."""

from __future__ import annotations

import asyncio
import inspect
from collections import defaultdict, deque
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from hudhud.worker.provider import Provider

T = TypeVar("T")


class LostReplyError(ConnectionError):
    """The provider acted, and the connection broke before it said so."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of a provider's client.

    Attributes:
        method: Its name.
        args: What it was given by position.
        kwargs: What it was given by name.
        acted: Whether the provider did it by this call, whatever it answered.
        answer: What it answered, or would have.
    """

    method: str
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    acted: bool
    answer: object = None

    def has(self, key: str) -> bool:
        """Whether it was called with this key, wherever in its arguments."""
        return _holds([self.args, self.kwargs], key)


@dataclass(frozen=True, slots=True)
class _Fault:
    error: BaseException
    acts: bool


class Recorder:
    """What stands in for a provider.

    Attributes:
        dedups: Whether the same call again acts no second time, and gets the same answer.
        calls: Every call, in order.
        asked: The keys that it was asked after, by reconciliation.
    """

    def __init__(self, like: type[object] | None = None, *, dedups: bool = False) -> None:
        self.dedups = dedups
        self.calls: list[RecordedCall] = []
        self.asked: list[str] = []
        self._like = like
        self._answers: dict[str, Callable[..., object]] = {}
        self._faults: defaultdict[str, deque[_Fault]] = defaultdict(deque)

    def answers(self, method: str, answer: object) -> None:
        """Let a method answer this, or what this function returns for the call's arguments."""
        self._answers[method] = answer if callable(answer) else lambda *_, **__: answer

    def loses_reply(self, method: str, *, times: int = 1) -> None:
        """Let the next calls of a method act, and raise `LostReplyError` instead of answering."""
        self._faults[method].extend([_Fault(LostReplyError(method), acts=True)] * times)

    def fails(self, method: str, error: BaseException, *, times: int = 1) -> None:
        """Let the next calls of a method raise without acting, a `Refused` or `TryLater` say."""
        self._faults[method].extend([_Fault(error, acts=False)] * times)

    def acted(self, method: str | None = None) -> list[RecordedCall]:
        """Return the calls by which something was done, of one method or of all."""
        return [call for call in self.calls if call.acted and method in (None, call.method)]

    def find(self, key: str) -> object:
        """Say what became of a key: the answer of the call that did it, None if none did."""
        self.asked.append(key)
        for call in self.acted():
            if call.has(key):
                return {} if call.answer is None else call.answer
        return None

    def call(self, method: str, *args: object, **kwargs: object) -> object:
        """Do what a call of the client does."""
        fault = self._faults[method].popleft() if self._faults[method] else None
        acted = fault is None or fault.acts
        again = self._again(method, args, kwargs) if self.dedups and acted else None
        make = self._answers.get(method)
        answer = make(*args, **kwargs) if make else {"number": len(self.calls) + 1}
        if again is not None:
            acted, answer = False, again.answer
        self.calls.append(RecordedCall(method, args, kwargs, acted, answer if acted else None))
        if fault is not None:
            raise fault.error
        return answer

    def _again(
        self, method: str, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> RecordedCall | None:
        return next(
            (c for c in self.acted(method) if c.args == args and dict(c.kwargs) == dict(kwargs)),
            None,
        )

    def is_plain(self, method: str) -> bool:
        """Whether the client's own method is a plain function.

        Raises:
            AttributeError: The client has no such method.
        """
        return self._like is not None and not inspect.iscoroutinefunction(
            getattr(self._like, method)
        )


class _Client:
    """Whatever method is called, a recorder takes the call."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __getattr__(self, method: str) -> Callable[..., object]:
        if self._recorder.is_plain(method):
            return partial(self._recorder.call, method)
        return partial(self._call_later, method)

    async def _call_later(self, method: str, *args: object, **kwargs: object) -> object:
        try:
            return self._recorder.call(method, *args, **kwargs)
        finally:
            # As any client on a network: between the act and its answer there is time to die.
            await asyncio.sleep(0)


def _holds(value: object, key: str) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(one, key) for one in cast("Mapping[object, object]", value).values())
    if isinstance(value, list | tuple):
        return any(_holds(one, key) for one in cast("list[object]", value))
    return value == key


@contextmanager
def recording(provider: Provider[T], *, like: type[T] | None = None) -> Generator[Recorder]:
    """Let a recorder stand in for a provider: nothing is opened, and nothing leaves.

    `with recording(bank) as recorded: drain(app, url)`, then look at `recorded.acted("confirm")`.
    It knows each key that it acted on, so an effect that is reconciled by a function finds it; and
    where the provider `dedups`, the same call again acts no second time.

    Args:
        provider: As `app.provider` returned it.
        like: The client's class: only its methods can be called, the plain ones as plain functions;
            None: any method, as a coroutine function.

    Source: worker/provider.py
    """
    recorder = Recorder(like, dedups=provider.reconcile == "dedups")
    with provider.replaced(cast("T", _Client(recorder)), recorder.find):
        yield recorder
