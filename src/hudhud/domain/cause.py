"""What runs now, as the cause of what it makes: how a correlation is carried on without a word.

A worker says so around each run. A job or event that is made meanwhile belongs to the same flow
(`correlation_id`), and an event names what it follows from (`causation_id`), unless whoever makes
it says otherwise.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator
    from uuid import UUID

    from hudhud.domain.event import NewEvent
    from hudhud.domain.job import NewJob


class Cause(Protocol):
    """Something that makes jobs and events: a run, or the event that it handles."""

    @property
    def flow_id(self) -> str:
        """The `correlation_id` of what it makes."""
        ...

    @property
    def causation_id(self) -> UUID:
        """The event or job that what it makes follows from."""
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """A cause of which both are known beforehand."""

    flow_id: str
    causation_id: UUID


_current: ContextVar[Cause | None] = ContextVar("hudhud_cause", default=None)


def begin(cause: Cause) -> None:
    """Say what runs from here on, in this task or thread."""
    _current.set(cause)


@contextmanager
def caused_by(cause: Cause) -> Generator[None]:
    """Say what runs in this block."""
    token = _current.set(cause)
    try:
        yield
    finally:
        _current.reset(token)


def followed_by_job(new_job: NewJob) -> NewJob:
    """Return a job as part of the flow of what runs now, unless it names one itself."""
    cause = _current.get()
    if cause is None or new_job.correlation_id is not None:
        return new_job
    return replace(new_job, correlation_id=cause.flow_id)


def followed_by_event(new_event: NewEvent) -> NewEvent:
    """Return an event as one that follows from what runs now, unless it says otherwise itself."""
    cause = _current.get()
    if cause is None:
        return new_event
    return replace(
        new_event,
        correlation_id=new_event.correlation_id or cause.flow_id,
        causation_id=new_event.causation_id or cause.causation_id,
    )
