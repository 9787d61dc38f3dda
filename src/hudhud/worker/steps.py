"""The steps of an effect, taken on the event loop or in a thread.

What an effect does is written once, as a generator of steps without I/O; here are the two that do
them. An error of a step is raised at the step that asked for it.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Generator

    from hudhud.store.call import Call
    from hudhud.worker.desk import Desk
    from hudhud.worker.provider import AnyProvider, Finder

Step: TypeAlias = "Call[Any] | Ask | Pause"
Steps: TypeAlias = "Generator[Step, Any, None]"


@dataclass(frozen=True, slots=True)
class Ask:
    """A step: ask the provider what became of the effect's key."""

    finder: Finder[Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """A step: wait so many seconds."""

    seconds: float


class Taker:
    """Takes the steps of one effect.

    Attributes:
        was_cancelled: Whether the task was cancelled while a call was under way: the call's answer
            was given all the same, for whoever asked must know what was committed.
    """

    def __init__(self, desk: Desk, provider: AnyProvider, key: str) -> None:
        self.was_cancelled = False
        self._desk = desk
        self._provider = provider
        self._key = key

    async def atake(self, steps: Steps) -> None:
        """Take all steps on the event loop."""
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration:
                return
            answer = error = None
            try:
                answer = await self._ado(step)
            except BaseException as caught:  # noqa: BLE001 - thrown at the step that asked for it
                error = caught

    def take(self, steps: Steps) -> None:
        """Take all steps in a handler's thread."""
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration:
                return
            answer = error = None
            try:
                answer = self._do(step)
            except BaseException as caught:  # noqa: BLE001 - thrown at the step that asked for it
                error = caught

    async def _ado(self, step: Step) -> object:
        match step:
            case Pause():
                await asyncio.sleep(step.seconds)
                return None
            case Ask():
                answer = self._ask(step)
                return await answer if inspect.isawaitable(answer) else answer
            case _:
                answer, was_cancelled = await self._desk.ask(step)
                self.was_cancelled = self.was_cancelled or was_cancelled
                return answer

    def _do(self, step: Step) -> object:
        match step:
            case Pause():
                time.sleep(step.seconds)
                return None
            case Ask():
                answer = self._ask(step)
                return _refuse_awaitable(self._key) if inspect.isawaitable(answer) else answer
            case _:
                return self._desk.ask_in_thread(step)

    def _ask(self, step: Ask) -> Any:  # noqa: ANN401 - the finder's own type
        return self._desk.providers[self._provider].ask(step.finder, self._key)


def _refuse_awaitable(key: str) -> NoReturn:
    message = f"effect {key}: a plain function needs a plain reconcile function, not a coroutine"
    raise TypeError(message)
