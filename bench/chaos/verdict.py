"""Holds what the producers were told and what the database did against what hudhud promises.

Pure: from answers and a record to findings. A finding is one thing that must not be.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from bench.chaos.finding import Breach, Finding
from bench.chaos.record import FINAL
from bench.chaos.task import WITH_EFFECT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from bench.chaos.answers import Answers
    from bench.chaos.record import Entry, Job, Record

_RESCUE: Final = "rescue"
# Whatever ends a run that a worker holds; the others end jobs that nobody has claimed.
_UNDER_A_LEASE: Final = frozenset({"finish", "settle", _RESCUE})


@dataclass(slots=True)
class Holding:
    """One lease's hold on one run of a job: from `taken`, and until `gone` if it is."""

    taken: Entry
    run: int
    gone: Entry | None = None

    @property
    def until(self) -> float:
        """The place in the record where it ended."""
        return float("inf") if self.gone is None else self.gone.seq


@dataclass(slots=True)
class Story:
    """What the record says of one job, in its order."""

    holdings: list[Holding] = field(default_factory=list[Holding])
    ends: list[Entry] = field(default_factory=list["Entry"])

    @property
    def outcomes(self) -> dict[int, str | None]:
        """The outcome of each run."""
        return {entry.runs[0]: entry.outcome for entry in self.ends}

    @property
    def has_ended(self) -> bool:
        """Whether it came to a final outcome."""
        return any(entry.outcome in FINAL for entry in self.ends)


def judge(answers: Answers, record: Record) -> list[Finding]:
    """Return everything that must not be; empty when the promises were kept."""
    stories = _stories(record.entries)
    return [
        *_lost(answers, record, stories),
        *_doubled(answers, record),
        *_torn(answers, record, stories),
        *_ends(record.jobs, stories),
        *(found for job_id, story in stories.items() for found in _holdings(job_id, story)),
        *_early_rescues(record.entries),
        *_left_over(record),
    ]


def timeline(record: Record, job_id: UUID) -> list[str]:
    """Return what the record says of one job, a line for each entry."""
    return [
        f"{entry.seq} at {entry.at:.3f} xid {entry.xid}: {entry.what} by {entry.verb},"
        f" run {run}, {entry.outcome or entry.lease_id} {entry.code or ''}"
        for entry in record.entries
        for entry_job, run in zip(entry.job_ids, entry.runs, strict=True)
        if entry_job == job_id
    ]


def restarts(record: Record) -> Iterator[float]:
    """Yield, for each run that was lost, the seconds from its lease's end to its job's next run."""
    for story in _stories(record.entries).values():
        for lost, following in pairwise(story.holdings):
            if lost.gone is not None and story.outcomes.get(lost.run) == "lost":
                assert lost.gone.locked_until is not None
                yield following.taken.at - lost.gone.locked_until


def _stories(entries: Sequence[Entry]) -> dict[UUID, Story]:
    stories: dict[UUID, Story] = defaultdict(Story)
    held: dict[UUID | None, list[Holding]] = {}
    for entry in entries:
        match entry.what:
            case "taken":
                holdings = [Holding(entry, run) for run in entry.runs]
                held[entry.lease_id] = holdings
                for job_id, holding in zip(entry.job_ids, holdings, strict=True):
                    stories[job_id].holdings.append(holding)
            case "gone":
                for holding in held.get(entry.lease_id, []):
                    holding.gone = entry
            case _:
                stories[entry.job_ids[0]].ends.append(entry)
    return stories


def _lost(answers: Answers, record: Record, stories: dict[UUID, Story]) -> Iterator[Finding]:
    known = {job.id for job in record.jobs}
    for number, job_id in answers.acknowledged.items():
        if job_id not in known:
            yield Finding(Breach.LOST, f"intent {number} was acknowledged and is not there", job_id)
    for job in record.jobs:
        if job.id not in stories or not stories[job.id].has_ended:
            yield Finding(Breach.LOST, f"{job.type} of intent {job.task.number} has no end", job.id)


def _doubled(answers: Answers, record: Record) -> Iterator[Finding]:
    for job_id, amount in Counter(job_id for job_id, _ in record.effects).items():
        for _ in range(amount - 1):
            yield Finding(Breach.DOUBLED, f"{amount} effects of one job", job_id)
    first: dict[tuple[int, int], UUID] = {}
    for job in record.jobs:
        place = (job.task.number, job.task.child)
        if first.setdefault(place, job.id) != job.id:
            words = f"intent {place[0]}, child {place[1]}, became {first[place]} as well"
            yield Finding(Breach.DOUBLED, words, job.id)
    for number in answers.second:
        yield Finding(Breach.DOUBLED, f"the key of intent {number} was given two jobs")


def _torn(answers: Answers, record: Record, stories: dict[UUID, Story]) -> Iterator[Finding]:
    """Compare the two halves of every transaction: intent and job, effect and outcome, children."""
    parents = {job.task.number: job for job in record.jobs if not job.task.child}
    enqueued = {number for number, job in parents.items() if not job.task.is_bare}
    for number in sorted(record.intents ^ enqueued):
        yield Finding(Breach.TORN, f"intent {number} and its job were not committed together")
    for number in sorted(answers.undone & (record.intents | parents.keys())):
        yield Finding(Breach.GHOST, f"intent {number} was rolled back and is there")
    effects = set(record.effects)
    for job in record.jobs:
        yield from _torn_job(job, stories.get(job.id, Story()).outcomes, effects)
    for job_id, run in sorted(effects):
        if stories.get(job_id, Story()).outcomes.get(run) != "succeed":
            yield Finding(Breach.TORN, f"the effect of run {run} is there, its success not", job_id)
    yield from _lost_children(record, parents, {job_id for job_id, _ in effects})


def _torn_job(
    job: Job, outcomes: dict[int, str | None], effects: set[tuple[UUID, int]]
) -> Iterator[Finding]:
    for run, outcome in outcomes.items():
        if job.type in WITH_EFFECT and outcome == "succeed" and (job.id, run) not in effects:
            yield Finding(Breach.TORN, f"run {run} succeeded, its effect is not there", job.id)


def _lost_children(record: Record, parents: dict[int, Job], acted: set[UUID]) -> Iterator[Finding]:
    born = {(job.task.number, job.task.child) for job in record.jobs if job.task.child}
    for number, parent in parents.items():
        wanted = {(number, place) for place in range(1, parent.task.children + 1)}
        due = wanted if parent.id in acted else set[tuple[int, int]]()
        for _, place in sorted(due - born):
            yield Finding(Breach.LOST, f"child {place} of intent {number} is not there", parent.id)
        for _, place in sorted((wanted & born) - due):
            yield Finding(
                Breach.TORN, f"child {place} is there, its parent's effect not", parent.id
            )


def _ends(jobs: Sequence[Job], stories: dict[UUID, Story]) -> Iterator[Finding]:
    for job in jobs:
        ends = stories[job.id].ends if job.id in stories else []
        runs = sorted(entry.runs[0] for entry in ends)
        finals = [entry for entry in ends if entry.outcome in FINAL]
        if runs != list(range(1, len(runs) + 1)):
            yield Finding(Breach.GAP, f"its runs are {runs}", job.id)
        elif finals and (len(finals) > 1 or finals[0].runs[0] != runs[-1]):
            words = f"final outcomes at runs {[entry.runs[0] for entry in finals]} of {runs[-1]}"
            yield Finding(Breach.GAP, words, job.id)
        for entry in finals:
            if entry.outcome != job.task.end:
                words = f"ended {entry.outcome} ({entry.code}) instead of {job.task.end}"
                yield Finding(Breach.WRONG_END, words, job.id)


def _holdings(job_id: UUID, story: Story) -> Iterator[Finding]:
    yield from _stale_finishes(job_id, story)
    yield from _overlaps(job_id, story)


def _stale_finishes(job_id: UUID, story: Story) -> Iterator[Finding]:
    for end in story.ends:
        if end.verb not in _UNDER_A_LEASE:
            continue
        holders = [
            one for one in story.holdings if one.run == end.runs[0] and one.taken.seq < end.seq
        ]
        # Who deletes a lease and ends its runs does both in one transaction.
        is_held = any(
            one.until > end.seq or (one.gone is not None and one.gone.xid == end.xid)
            for one in holders
        )
        if not is_held:
            words = f"{end.verb} ended run {end.runs[0]} ({end.outcome}) without its lease"
            yield Finding(Breach.STALE_FINISH, words, job_id)


def _overlaps(job_id: UUID, story: Story) -> Iterator[Finding]:
    """Find leases that held the job while another still did: neither gone, nor its run ended."""
    ended = {entry.runs[0]: entry.seq for entry in reversed(story.ends)}
    last: Holding | None = None
    held_until = 0.0
    for holding in story.holdings:
        if last is not None and holding.taken.seq < held_until:
            words = f"leases {last.taken.lease_id} and {holding.taken.lease_id} at once"
            yield Finding(Breach.OVERLAP, words, job_id)
        until = min(holding.until, ended.get(holding.run, float("inf")))
        if until > held_until:
            last, held_until = holding, until


def _early_rescues(entries: Sequence[Entry]) -> Iterator[Finding]:
    for entry in entries:
        if entry.what == "gone" and entry.verb == _RESCUE and entry.locked_until is not None:
            early_seconds = entry.locked_until - entry.at
            if early_seconds > 0:
                words = f"lease {entry.lease_id} was taken back {early_seconds:.3f} s early"
                yield Finding(Breach.EARLY_RESCUE, words)


def _left_over(record: Record) -> Iterator[Finding]:
    for table, amount in record.left_over.items():
        for _ in range(amount):
            yield Finding(Breach.LEFT_OVER, f"a row in {table}")
