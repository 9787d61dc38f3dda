"""Histories by hand: what a database might have noted, told in the order in which it happened."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from bench.chaos.answers import Answers
from bench.chaos.record import Entry, Job, Record
from bench.chaos.task import EFFECT, Task
from bench.chaos.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

WORKER = UUID(int=1)


@dataclass
class History:
    """A answers and a record in the making."""

    answers: Answers = field(default_factory=Answers)
    entries: list[Entry] = field(default_factory=list[Entry])
    jobs: list[Job] = field(default_factory=list[Job])
    effects: list[tuple[UUID, int]] = field(default_factory=list[tuple[UUID, int]])
    intents: set[int] = field(default_factory=set[int])
    left_over: dict[str, int] = field(default_factory=dict[str, int])
    xid: int = 0

    def enqueued(self, type: str = EFFECT, **task: Any) -> UUID:  # noqa: A002, ANN401 - the words for it
        """Commit a job, and let its producer know."""
        number = len(self.intents) + 1
        job_id = self.job(Task(number=number, **task), type)
        self.intents.add(number)
        self.answers.acknowledge({number: job_id})
        return job_id

    def job(self, task: Task, type: str = EFFECT) -> UUID:  # noqa: A002 - as above
        """Have a job in the database, and nobody told."""
        job_id = uuid4()
        self.jobs.append(Job(job_id, type, task))
        return job_id

    def taken(self, *job_ids: UUID, run: int = 1, lease_id: UUID | None = None) -> UUID:
        """Take jobs under a lease."""
        lease_id = lease_id or uuid4()
        self.begin()
        self._note("taken", "claim", job_ids=job_ids, run=run, lease_id=lease_id)
        return lease_id

    def gone(self, lease_id: UUID, verb: str = "finish", *, seconds_left: float = 0) -> None:
        """Delete a lease, in the transaction that is under way."""
        (taken,) = (one for one in self.entries if one.lease_id == lease_id)
        at = len(self.entries)
        self._note(
            "gone",
            verb,
            job_ids=taken.job_ids,
            run=taken.runs[0],
            lease_id=lease_id,
            locked_until=at + seconds_left,
        )

    def ended(
        self, job_id: UUID, outcome: str = "succeed", *, verb: str = "settle", run: int = 1
    ) -> None:
        """End a run; a success has its effect."""
        self._note("ended", verb, job_ids=[job_id], run=run, outcome=outcome)
        if outcome == "succeed":
            self.effects.append((job_id, run))

    def ran(self, job_id: UUID, outcome: str = "succeed", run: int = 1) -> None:
        """Take a job alone, end its run, and close the lease, as everything should go."""
        lease_id = self.taken(job_id, run=run)
        self.begin()
        self.ended(job_id, outcome, run=run)
        self.begin()
        self.gone(lease_id)

    def lost(self, job_id: UUID, run: int = 1) -> None:
        """Take a job, and have its lease rescued."""
        lease_id = self.taken(job_id, run=run)
        self.begin()
        self.gone(lease_id, "rescue")
        self.ended(job_id, "lost", verb="rescue", run=run)

    def begin(self) -> None:
        """Begin the next transaction."""
        self.xid += 1

    def breaches(self) -> list[str]:
        """Return what the verdict finds."""
        return [finding.breach.value for finding in judge(self.answers, self.record())]

    def record(self) -> Record:
        """Return the record as it is now."""
        return Record(
            self.entries, self.jobs, self.effects, frozenset(self.intents), self.left_over
        )

    def _note(
        self,
        what: str,
        verb: str,
        *,
        job_ids: Sequence[UUID],
        run: int,
        lease_id: UUID | None = None,
        **particulars: Any,  # noqa: ANN401 - of an Entry
    ) -> None:
        at = len(self.entries)
        runs = [run] * len(job_ids)
        entry = Entry(at + 1, at, self.xid, what, verb, lease_id, WORKER, job_ids, runs)
        self.entries.append(dataclasses.replace(entry, **particulars))
