"""What a drain did: the runs, each with what it came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from hudhud.worker.handler import AnyHandler


@dataclass(frozen=True, slots=True)
class EndedRun:
    """One run, as it ended.

    Attributes:
        outcome: succeed, retry, snooze, fail, cancel, hand_back; lost when it was taken away.
        code: Why, as `last_error_code` shows it; None for a success.
        error: What the handler raised, itself; None when it returned.
        result: What it returned, as it is kept.
    """

    job_id: UUID
    type: str
    version: int
    tenant_id: str
    payload: Mapping[str, Any]
    run: int
    attempt: int
    outcome: str
    code: str | None
    result: Any
    error: BaseException | None


class Drained(Sequence[EndedRun]):
    """The runs of a drain in the order in which they ended.

    Attributes:
        waiting: Jobs that wait for their time, or for a worker that knows them.
    """

    def __init__(self, runs: Sequence[EndedRun], waiting: int) -> None:
        self.waiting = waiting
        self._runs = tuple(runs)

    @overload
    def __getitem__(self, index: int) -> EndedRun: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[EndedRun]: ...

    @override
    def __getitem__(self, index: int | slice) -> EndedRun | Sequence[EndedRun]:
        return self._runs[index]

    @override
    def __len__(self) -> int:
        return len(self._runs)

    @override
    def __repr__(self) -> str:
        lines = [f"{one.type} attempt {one.attempt}: {_said(one)}" for one in self._runs]
        return "\n".join([f"{len(lines)} runs, {self.waiting} jobs waiting", *lines])

    @property
    def errors(self) -> list[BaseException]:
        """What the handlers raised."""
        return [one.error for one in self._runs if one.error is not None]

    def of(self, handler: AnyHandler | str) -> list[EndedRun]:
        """Return the runs of one handler or type."""
        job_type = handler if isinstance(handler, str) else handler.type
        return [one for one in self._runs if one.type == job_type]

    def succeeded(self) -> Drained:
        """Return this, when every run was a success.

        Raises:
            BaseExceptionGroup: What the handlers raised.
            AssertionError: Runs ended otherwise without an exception: cancelled, expired, unknown.
        """
        if self.errors:
            message = f"{len(self.errors)} of {len(self)} runs failed"
            raise BaseExceptionGroup(message, self.errors)
        if any(one.outcome != "succeed" for one in self._runs):
            raise AssertionError(repr(self))
        return self


def _said(run: EndedRun) -> str:
    code = f" ({run.code})" if run.code else ""
    return f"{run.outcome}{code}" if run.error is None else f"{run.outcome}{code}, {run.error!r}"
