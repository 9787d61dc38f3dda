"""The verbs of a worker: claim, finish, settle, renew, and its presence.

Each returns a `Call`; nothing happens until a driver runs it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from hudhud.domain import payload
from hudhud.store.call import Arg, Call, given, nothing, one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from hudhud.domain.job import Outcome
    from hudhud.store.call import Row


class NewWorker(NamedTuple):
    """A worker process as it makes itself known; `id` is new with each start."""

    id: UUID
    name: str
    host: str
    pid: int
    queues: Sequence[str]
    contracts: Sequence[str]  # "type:version" of what it can run
    release: str


class ClaimRequest(NamedTuple):
    """What a worker wants of a queue; the four sequences have one element per scan range."""

    worker_id: UUID
    queue: str
    lanes: Sequence[int]
    tenants: Sequence[str]
    marks: Sequence[int]  # low-water marks; 0 looks from the true start
    quanta: Sequence[int]  # at most so many jobs of the range
    lease_seconds: int
    suspects: int = 1  # at most so many of them, when there are any


class Claimed(NamedTuple):
    """A batch under one lease. `tops` and `counts` are per range, the lists below them per job.

    `xid` and `xmin` are for the low-water mark; `expired` has the positions (from 1) of jobs past
    their expires_at, to be settled without a run; `turns` the positions in the order to start them,
    None when that is the list's own. `payloads` and `extras` are JSON texts, an extra
    None for the many jobs that have nothing of the sort.
    """

    lease_id: UUID
    xid: int
    xmin: int
    tops: list[int | None] | None
    counts: list[int] | None
    expired: list[int] | None
    turns: list[int] | None
    job_ids: list[UUID]
    runs: list[int]
    attempts: list[int]
    crashes: list[int]
    types: list[str]
    versions: list[int]
    tenant_ids: list[str]
    payloads: list[str]
    max_attempts: list[int]
    extras: list[str | None]

    @property
    def are_suspects(self) -> bool:
        """Whether they were lost with the worker that had them last, which one may have killed."""
        return self.tops is None


@dataclass(frozen=True, slots=True)
class Settlement:
    """How one run of a lease ended, when it was no plain success; `position` counts from 1.

    `result` is JSON text, or None for no result. `error` is redacted text (domain/redact.py).
    A snooze with an `effect` lasts until an operator has decided about that.
    """

    lease: UUID
    position: int
    outcome: Outcome
    code: str | None = None
    error_class: str | None = None
    error: str | None = None
    fingerprint: str | None = None
    result: str | None = None
    delay_seconds: float | None = None
    class_attempts_max: int | None = None
    age_seconds_max: float | None = None
    effect: UUID | None = None

    def json(self) -> str:
        """Return the form that `finish` takes; the result goes in as it is, not parsed again."""
        fields = {
            "lease": str(self.lease),
            "position": self.position,
            "outcome": self.outcome,
            "code": self.code,
            "class": self.error_class,
            "error": self.error,
            "fingerprint": self.fingerprint,
            "delay_seconds": self.delay_seconds,
            "class_attempts_max": self.class_attempts_max,
            "age_seconds_max": self.age_seconds_max,
            "effect": None if self.effect is None else str(self.effect),
        }
        text = json.dumps({name: value for name, value in fields.items() if value is not None})
        return text if self.result is None else f'{text[:-1]}, "result": {self.result}}}'


class Ranges(NamedTuple):
    """Scan ranges, two lists of one length, and what to ask after next time."""

    lanes: list[int]
    tenants: list[str]
    newest: int


class Finished(NamedTuple):
    """What a finish came to: outcomes written, leases no longer held, ends that were dropped."""

    settled: int
    lost_leases: list[UUID]
    refused: int


def announce(types: Sequence[Mapping[str, object]]) -> Call[None]:
    """Make types and their payload contracts known, and free the jobs that waited for them.

    Args:
        types: {type, version, queue, lane, max_attempts, max_crashes, schema: {required, optional,
            open}} each; see domain/schema.py for the schema.

    Source: sql/functions/runs/announce.sql
    """
    return Call("announce", (Arg("types", "jsonb", payload.dump_value(list(types))),), nothing)


def register_worker(worker: NewWorker) -> Call[None]:
    """Make a worker process known.

    Source: sql/functions/runs/register_worker.sql
    """
    args = (
        Arg("worker_id", "uuid", worker.id),
        Arg("name", "text", worker.name),
        Arg("host", "text", worker.host),
        Arg("pid", "integer", worker.pid),
        Arg("queues", "text[]", list(worker.queues)),
        Arg("contracts", "text[]", list(worker.contracts)),
        Arg("release", "text", worker.release),
    )
    return Call("register_worker", args, nothing)


def leave(worker_id: UUID) -> Call[None]:
    """Take a stopped worker process off the list.

    Source: sql/functions/runs/leave.sql
    """
    return Call("leave", (Arg("worker_id", "uuid", worker_id),), nothing)


def beat(worker_id: UUID) -> Call[list[tuple[UUID, int]]]:
    """Say that a worker process is alive, and learn which of its runs are to be cancelled.

    Returns:
        (job id, run) pairs, the same ones again until the run has ended.

    Source: sql/functions/runs/beat.sql
    """
    return Call("beat", (Arg("worker_id", "uuid", worker_id),), _pairs)


def ranges(queue: str, after: int = 0) -> Call[Ranges]:
    """Learn the scan ranges of a queue that are newer than those already known.

    Args:
        queue: Name of the queue.
        after: `newest` of the last answer; 0 for all.

    Source: sql/functions/runs/ranges.sql
    """
    args = (Arg("queue", "text", queue), Arg("after", "bigint", after))
    return Call("ranges", args, _ranges)


def end_session(server_pid: int) -> Call[bool]:
    """End a session of the same role at the server.

    Source: sql/functions/runs/end_session.sql
    """
    return Call("end_session", (Arg("server_pid", "integer", server_pid),), one)


def end_transaction(lease_id: UUID, position: int) -> Call[int]:
    """End the session in which a run has its `ctx.transaction()` open, if it still has.

    Args:
        lease_id: The lease of the run.
        position: Its place in the lease, from 1.

    Source: sql/functions/runs/end_transaction.sql
    """
    args = (Arg("lease_id", "uuid", lease_id), Arg("place", "integer", position))
    return Call("end_transaction", args, one)


def mark_busy(queue: str, seconds: float) -> Call[None]:
    """Say that this worker polls a queue hard for the next moment, at most 1 s.

    Source: sql/functions/runs/mark_busy.sql
    """
    args = (Arg("queue", "text", queue), Arg("seconds", "real", seconds))
    return Call("mark_busy", args, nothing)


def claim(request: ClaimRequest) -> Call[Claimed | None]:
    """Take claimable jobs under a new lease; commit at once.

    Returns:
        None when nothing was found. Suspects come without others, and without `tops`.

    Source: sql/functions/runs/claim.sql
    """
    args = (
        Arg("worker_id", "uuid", request.worker_id),
        Arg("queue", "text", request.queue),
        Arg("lanes", "smallint[]", list(request.lanes)),
        Arg("tenants", "text[]", list(request.tenants)),
        Arg("marks", "bigint[]", list(request.marks)),
        Arg("quanta", "integer[]", list(request.quanta)),
        Arg("lease_seconds", "integer", request.lease_seconds),
        Arg("suspects", "integer", request.suspects),
    )
    return Call("claim", args, _claimed)


def finish(
    leases: Sequence[UUID],
    closes: Sequence[bool],
    *,
    part_leases: Sequence[UUID] = (),
    part_positions: Sequence[int] = (),
    settlements: Sequence[Settlement] = (),
    whole: Sequence[UUID] = (),
) -> Call[Finished]:
    """End runs of this worker's leases.

    Args:
        leases: Every lease that is touched, and for each
        closes: whether it ends: then what is neither settled below nor before has succeeded.
        part_leases: With part_positions (from 1): runs that succeeded in leases that stay open.
        part_positions: See part_leases.
        settlements: Every other end.
        whole: Leases that end, of which every run has succeeded and none was recorded before; not
            among leases.

    Source: sql/functions/runs/finish.sql
    """
    settled = f"[{', '.join(one.json() for one in settlements)}]" if settlements else None
    args = given(
        Arg("leases", "uuid[]", list(leases)),
        Arg("closes", "boolean[]", list(closes)),
        Arg("part_leases", "uuid[]", list(part_leases) or None),
        Arg("part_positions", "integer[]", list(part_positions) or None),
        Arg("settlements", "jsonb", settled),
        Arg("whole", "uuid[]", list(whole) or None),
    )
    return Call("finish", args, _finished)


def settle(
    lease_id: UUID, position: int, result: str | None = None, *, idle_seconds: float | None = None
) -> Call[bool]:
    """Record one run's success in the handler's own transaction, before its other writes.

    Args:
        lease_id: The lease of the run.
        position: Its place in the lease, from 1.
        result: JSON text, or None.
        idle_seconds: The server ends the transaction after so long without a statement.

    Returns:
        False when the lease is lost: the caller must roll back.

    Source: sql/functions/runs/settle.sql
    """
    args = given(
        Arg("lease_id", "uuid", lease_id),
        Arg("place", "integer", position),
        Arg("result", "jsonb", result),
        Arg("idle_seconds", "double precision", idle_seconds),
    )
    return Call("settle", args, one)


def renew(worker_id: UUID, leases: Sequence[UUID], lease_seconds: int) -> Call[list[UUID]]:
    """Prolong leases that still hold work.

    Returns:
        Those that are still this worker's; one that is missing is lost.

    Source: sql/functions/runs/renew.sql
    """
    args = (
        Arg("worker_id", "uuid", worker_id),
        Arg("leases", "uuid[]", list(leases)),
        Arg("lease_seconds", "integer", lease_seconds),
    )
    return Call("renew", args, one)


def write_log(job_id: UUID, run: int, lines: Sequence[Mapping[str, object]]) -> Call[None]:
    """Keep lines and progress that a handler wrote about its run.

    Args:
        job_id: The job.
        run: Its run.
        lines: {level: debug | info | warning | error, message, progress: 0 to 1 or None} each.

    Source: sql/functions/runs/write_log.sql
    """
    args = (
        Arg("job_id", "uuid", job_id),
        Arg("run", "integer", run),
        Arg("lines", "jsonb", payload.dump_value(list(lines))),
    )
    return Call("write_log", args, nothing)


def _pairs(rows: Sequence[Row]) -> list[tuple[Any, Any]]:  # zipped columns, typed by the verb
    return list(zip(*rows[0], strict=True))


def _ranges(rows: Sequence[Row]) -> Ranges:
    return Ranges(*rows[0])


def _claimed(rows: Sequence[Row]) -> Claimed | None:
    return Claimed(*rows[0]) if rows and rows[0][0] is not None else None


def _finished(rows: Sequence[Row]) -> Finished:
    return Finished(*rows[0])
