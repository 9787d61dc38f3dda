"""One run of one job: its facts, and how far it has come."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from hudhud.errors import LeaseLostError
from hudhud.worker.link import as_uuid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hudhud.worker.batch import Batch

_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(slots=True)
class OpenEffect:
    """An effect of a run of which it is not known what became.

    Attributes:
        is_under_way: Whether the run is inside its block.
        reconcile_at: Monotonic second before which it cannot be looked into.
        held_id: The effect's id, when only an operator can say.
    """

    is_under_way: bool
    reconcile_at: float
    held_id: UUID | None = None


class Run:
    """One run of one job. The facts are read from the batch's arrays only when they are asked for.

    Attributes:
        batch: The lease it runs under.
        index: Its place in the batch, from 0.
        deadline: Monotonic second at which its time is up; set when it starts.
        ending: Why it is being stopped from outside: "timeout", "cancel", "shutdown",
            "lease_lost", or "overdue" when it was given up; None while it may go on.
        has_ended: Whether what it came to is decided. Set on the event loop only, so that it is
            decided once.
        has_committed: Whether it decided that itself, in `ctx.transaction()`.
        in_transaction: Whether its `ctx.transaction()` is open; its fence is held meanwhile.
    """

    __slots__ = (
        "_done",
        "_effects",
        "_extras",
        "batch",
        "deadline",
        "ending",
        "has_committed",
        "has_ended",
        "in_transaction",
        "index",
    )

    def __init__(self, batch: Batch, index: int) -> None:
        self.batch = batch
        self.index = index
        self.deadline = 0.0
        self.ending: str | None = None
        self.has_ended = False
        self.has_committed = False
        self.in_transaction = False
        self._effects: dict[str, OpenEffect] | None = None
        self._done: set[str] | None = None
        self._extras: Mapping[str, Any] | None = None

    @property
    def effects(self) -> Mapping[str, OpenEffect]:
        """Its effects of which it is not known what became, by key."""
        return self._effects or _NOTHING

    @property
    def is_in_effect(self) -> bool:
        """Whether it is inside the block of an effect; it is not interrupted there lightly."""
        return any(effect.is_under_way for effect in self.effects.values())

    def open_effect(self, key: str, effect: OpenEffect) -> None:
        """Take note of an effect of which it is not known what becomes."""
        if self._effects is None:
            self._effects = {}
        self._effects[key] = effect

    def close_effect(self, key: str, *, is_done: bool = False) -> None:
        """Take note that it is known what became of an effect, or that it is not ours."""
        if self._effects is not None:
            self._effects.pop(key, None)
        if is_done:
            self._done = {*(self._done or ()), key}

    def has_done(self, key: str) -> bool:
        """Whether this run has come by an effect, and it is done."""
        return self._done is not None and key in self._done

    @property
    def job_id(self) -> UUID:
        """The job's id."""
        return as_uuid(self.batch.claimed.job_ids[self.index])

    @property
    def run(self) -> int:
        """Number of this run, from 1; grows with every claim, whatever came of it."""
        return self.batch.claimed.runs[self.index]

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1; snoozes and hand-backs do not count."""
        return self.batch.claimed.attempts[self.index]

    @property
    def max_attempts(self) -> int:
        """After how many failed attempts the job is dead."""
        return self.batch.claimed.max_attempts[self.index]

    @property
    def type(self) -> str:
        """The job's type."""
        return self.batch.claimed.types[self.index]

    @property
    def version(self) -> int:
        """The version of the type's payload contract."""
        return self.batch.claimed.versions[self.index]

    @property
    def tenant_id(self) -> str:
        """Whose job it is."""
        return self.batch.claimed.tenant_ids[self.index]

    @property
    def idempotency_key(self) -> str | None:
        """The key it was enqueued with, if any."""
        return cast("str | None", self._extra("idempotency_key"))

    @property
    def correlation_id(self) -> str | None:
        """What ties this job to the request it began with, if the caller said so."""
        return cast("str | None", self._extra("correlation_id"))

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context that the enqueue carried."""
        return cast("str | None", self._extra("traceparent"))

    @property
    def tags(self) -> Sequence[str]:
        """The tags it was enqueued with."""
        return tuple(cast("Sequence[str]", self._extra("tags") or ()))

    @property
    def root_id(self) -> UUID:
        """The first job of a line of replays; the job itself when it is none."""
        root = cast("str | None", self._extra("root_id"))
        return UUID(root) if root else self.job_id

    @property
    def flow_id(self) -> str:
        """What it makes belongs to the same flow; one that was not named begins with its job."""
        return self.correlation_id or str(self.root_id)

    @property
    def causation_id(self) -> UUID:
        """The events that it publishes follow from its job."""
        return self.job_id

    @property
    def is_cancelled(self) -> bool:
        """Whether this run should stop. A plain function asks now and then; a task is cancelled."""
        return self.ending is not None or self.batch.is_lost

    def check(self) -> None:
        """Stop here when this run may not go on.

        Raises:
            LeaseLostError: When it has ended, as far as the database is concerned.
        """
        if self.batch.is_lost or (self.has_ended and not self.has_committed):
            raise LeaseLostError

    def _extra(self, name: str) -> object:
        if self._extras is None:
            text = self.batch.claimed.extras[self.index]
            self._extras = cast("Mapping[str, Any]", json.loads(text)) if text else _NOTHING
        return self._extras.get(name)
