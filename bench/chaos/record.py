"""The record of a run as values: what the database noted about itself, and what is in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.chaos import query
from bench.chaos.task import Task, task_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID


FINAL: Final = frozenset({"succeed", "fail", "cancel"})
UNFINISHED: Final = ("ready", "scheduled", "waiting", "lease", "unrouted")


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of `chaos.entry`; see `sql/record.sql`. Instants in seconds of the database's clock.

    Attributes:
        seq: The order in which things were noted.
        what: `taken` and `gone` for a lease, `ended` for an outcome.
        verb: The function of hudhud that did it: claim, finish, settle, rescue …
        job_ids: Of the lease, or the one job that the outcome is of; `runs` beside them.
    """

    seq: int
    at: float
    xid: int
    what: str
    verb: str
    lease_id: UUID | None
    worker_id: UUID
    job_ids: Sequence[UUID]
    runs: Sequence[int]
    outcome: str | None = None
    code: str | None = None
    locked_until: float | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One job of the load."""

    id: UUID
    type: str
    task: Task


@dataclass(frozen=True, slots=True)
class EffectOutside:
    """One effect in the world outside, as hudhud knows it in the end; see `hudhud.effect`."""

    key: str
    state: str
    sends: int
    job_id: UUID
    result: object = None
    code: str | None = None
    reconcile: str = "queryable"


@dataclass(frozen=True, slots=True)
class Told:
    """What somebody published, as they said so in the same transaction; see `sql/events.sql`."""

    event_id: UUID
    number: int
    aggregate: str | None
    place: int | None


@dataclass(frozen=True, slots=True)
class Published:
    """One event, as hudhud has it."""

    event_id: UUID
    number: int
    sequence: int | None
    aggregate: str | None


@dataclass(frozen=True, slots=True)
class Routed:
    """One job that a relay made of an event."""

    seq: int
    subscription: str
    event_id: UUID
    job_id: UUID


@dataclass(frozen=True, slots=True)
class News:
    """All that is judged of events.

    Attributes:
        facts: What was published, by who did it; not what came over HTTP.
        published: What was published, as hudhud has it.
        routed: In the order in which the relays did it.
        deliveries: Event, subscription, job and run of each that a handler committed.
    """

    facts: Sequence[Told] = ()
    published: Sequence[Published] = ()
    routed: Sequence[Routed] = ()
    deliveries: Sequence[tuple[UUID, str, UUID, int]] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """All that is judged of the database.

    Attributes:
        entries: In their order.
        jobs: Everything that was enqueued, children included.
        effects: One (job, run) for each row that a handler committed.
        intents: Numbers of the intents that producers committed.
        left_over: Rows that a drained queue must not have, by table.
        outside: What hudhud knows of the world outside.
        news: What became of events.
    """

    entries: Sequence[Entry] = ()
    jobs: Sequence[Job] = ()
    effects: Sequence[tuple[UUID, int]] = ()
    intents: frozenset[int] = frozenset()
    left_over: Mapping[str, int] = field(default_factory=dict[str, int])
    outside: Sequence[EffectOutside] = ()
    news: News = field(default_factory=News)


def read(dsn: str) -> Record:
    """Read the record of a run whose workers have all stopped."""
    return Record(
        [Entry(*row) for row in query.rows(dsn, "entries")],
        [Job(job_id, name, task_of(payload)) for job_id, name, payload in query.rows(dsn, "jobs")],
        [(job_id, run) for job_id, run in query.rows(dsn, "effects")],
        frozenset(number for (number,) in query.rows(dsn, "intents")),
        left_over(dsn),
        [EffectOutside(*row) for row in query.rows(dsn, "effects_outside")],
        read_news(dsn),
    )


def read_news(dsn: str) -> News:
    """Read what became of events."""
    return News(
        [Told(*row) for row in query.rows(dsn, "facts")],
        [Published(*row) for row in query.rows(dsn, "published")],
        [Routed(*row) for row in query.rows(dsn, "routed")],
        [
            (event_id, name, job_id, run)
            for event_id, name, job_id, run in query.rows(dsn, "deliveries")
        ],
    )


def left_over(dsn: str) -> dict[str, int]:
    """Return how many rows there are of what has not come to its end, by table."""
    return dict(zip(UNFINISHED, query.rows(dsn, "left_over")[0], strict=True))
