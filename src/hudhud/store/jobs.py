"""The verbs of those who make jobs and of operators: one function per SQL function.

Each returns a `Call`; nothing happens until a driver runs it. What PostgreSQL would refuse with an
error of its own (U+0000, a naive instant) is refused here with one of ours.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hudhud.domain import payload
from hudhud.domain.job import Enqueued, check, is_plain
from hudhud.errors import InvalidJobError
from hudhud.store.call import Arg, Call, given, nothing, one

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from hudhud.domain.job import NewJob
    from hudhud.store.call import Row


def enqueue(new_job: NewJob, *, notify: bool = True) -> Call[Enqueued]:
    """Make a job in the caller's transaction, or find the one that has its key.

    Args:
        new_job: What to do.
        notify: False for callers of PREPARE TRANSACTION; workers then find the job by polling.

    Returns:
        The job's id, and whether it existed already under the key.

    Raises:
        InvalidJobError: Here for what cannot be sent, when run for what the type's contract or
            the rules refuse; the message names the JSON path or the option.
        PayloadTooLargeError: As above.
        DuplicateJobError: When run with on_conflict "reject", or "replace" for a claimed job.
        UnknownTypeError: When run for a strict queue and a type that nobody announced.

    Source: sql/functions/jobs/enqueue.sql
    """
    check(new_job)
    contract = (
        Arg("type", "text", new_job.type),
        Arg("payload", "jsonb", payload.dump(new_job.payload)),
    )
    options = () if notify and is_plain(new_job) else _options(new_job, notify=notify)
    return Call("enqueue", contract + options, _enqueued)


def enqueue_many(new_jobs: Iterable[NewJob], *, notify: bool = True) -> Call[list[Enqueued]]:
    """Make many jobs in one statement; each may use every option that `enqueue` takes.

    Args:
        new_jobs: Any number; about 1,000 a call is a good size.
        notify: As in `enqueue`.

    Returns:
        One result per job, in order.

    Raises:
        InvalidJobError: As `enqueue`, with the job's position (from 1); then none is made.
        PayloadTooLargeError: As above.
        DuplicateJobError: As `enqueue`.

    Source: sql/functions/jobs/enqueue_many.sql
    """
    batch = list(new_jobs)
    payloads = [_payload_at(position, job) for position, job in enumerate(batch, start=1)]
    keys = [job.idempotency_key for job in batch]
    args = given(
        Arg("types", "text[]", _column([job.type for job in batch]) or []),
        Arg("payloads", "jsonb[]", payloads),
        Arg("versions", "integer[]", _column([job.version for job in batch])),
        Arg("tenant_ids", "text[]", _column([job.tenant_id for job in batch])),
        Arg("queues", "text[]", _column([job.queue for job in batch])),
        Arg("lanes", "text[]", _column([job.lane for job in batch])),
        Arg("idempotency_keys", "text[]", keys if any(key is not None for key in keys) else None),
        Arg("on_conflicts", "text[]", _column([job.on_conflict for job in batch])),
        Arg(
            "unique_for",
            "interval[]",
            _column([_interval(job.unique_for_seconds) for job in batch]),
        ),
        Arg("unique_by", "jsonb[]", _column([_json(_names(job.unique_by)) for job in batch])),
        Arg("available_at", "timestamptz[]", _column([job.available_at for job in batch])),
        Arg("delays", "interval[]", _column([_interval(job.delay_seconds) for job in batch])),
        Arg("expires_at", "timestamptz[]", _column([job.expires_at for job in batch])),
        Arg("max_attempts", "integer[]", _column([job.max_attempts for job in batch])),
        Arg("correlation_ids", "text[]", _column([job.correlation_id for job in batch])),
        Arg("traceparents", "text[]", _column([job.traceparent for job in batch])),
        Arg("tags", "jsonb[]", _column([_json(list(job.tags) or None) for job in batch])),
        Arg("notify", "boolean", None if notify else False),
    )
    return Call("enqueue_many", args, _enqueued_many)


def cancel(
    job_id: UUID, *, actor: str, reason: str | None = None, tenant_id: str | None = None
) -> Call[str]:
    """Cancel a job: at once when it waits, by request when it runs.

    Args:
        job_id: Which.
        actor: Who does it, for the audit.
        reason: Why, for the audit.
        tenant_id: The caller's tenant; None for an operator, who sees all.

    Returns:
        "cancelled", or "requested": the job ends cancelled if its handler stops; success wins.

    Raises:
        JobNotFoundError: When run and there is none, or it is another tenant's.
        MoveRefusedError: When run and the job has ended.

    Source: sql/functions/jobs/cancel.sql
    """
    return Call("cancel", _act(job_id, actor=actor, reason=reason, tenant_id=tenant_id), one)


def reschedule(
    job_id: UUID,
    available_at: datetime | None,
    *,
    actor: str,
    reason: str | None = None,
    tenant_id: str | None = None,
) -> Call[None]:
    """Let a waiting job become available at another instant, None for now; else as `cancel`.

    Raises:
        MoveRefusedError: When run and the job runs or has ended.

    Source: sql/functions/jobs/reschedule.sql
    """
    # Sent even when None: the function has no default for it.
    when = Arg("available_at", "timestamptz", available_at)
    return Call(
        "reschedule",
        (when, *_act(job_id, actor=actor, reason=reason, tenant_id=tenant_id)),
        nothing,
    )


def replay(job_id: UUID, *, actor: str, reason: str, tenant_id: str | None = None) -> Call[UUID]:
    """Run a dead job again: a new job with the same payload and options; else as `cancel`.

    Returns:
        The new job's id.

    Raises:
        MoveRefusedError: When run and the job is not dead, or was run again already.

    Source: sql/functions/jobs/replay.sql
    """
    return Call("replay", _act(job_id, actor=actor, reason=reason, tenant_id=tenant_id), one)


def resubmit(
    job_id: UUID,
    corrected: Mapping[str, object],
    *,
    actor: str,
    reason: str,
    tenant_id: str | None = None,
) -> Call[UUID]:
    """Run a dead job again with a corrected payload, as a new job; else as `replay`.

    The payload replaces the whole old one and is checked as at enqueue; the dead job keeps its own.

    Source: sql/functions/jobs/resubmit.sql
    """
    document = Arg("payload", "jsonb", payload.dump(corrected))
    return Call(
        "resubmit", (document, *_act(job_id, actor=actor, reason=reason, tenant_id=tenant_id)), one
    )


def _unless(default: object, value: object) -> object:
    """Leave out what the function has as its default: a shorter statement is read faster."""
    return None if value == default else value


def _options(new_job: NewJob, *, notify: bool) -> tuple[Arg, ...]:
    return given(
        Arg("version", "integer", _unless(1, new_job.version)),
        Arg("tenant_id", "text", _unless("default", new_job.tenant_id)),
        Arg("queue", "text", new_job.queue),
        Arg("lane", "text", new_job.lane),
        Arg("idempotency_key", "text", new_job.idempotency_key),
        Arg("on_conflict", "text", _unless("return_existing", new_job.on_conflict)),
        Arg("unique_for", "interval", _interval(new_job.unique_for_seconds)),
        Arg("unique_by", "text[]", _names(new_job.unique_by)),
        Arg("available_at", "timestamptz", new_job.available_at),
        Arg("delay", "interval", _interval(new_job.delay_seconds)),
        Arg("expires_at", "timestamptz", new_job.expires_at),
        Arg("max_attempts", "integer", new_job.max_attempts),
        Arg("correlation_id", "text", new_job.correlation_id),
        Arg("traceparent", "text", new_job.traceparent),
        Arg("tags", "text[]", list(new_job.tags) or None),
        Arg("notify", "boolean", None if notify else False),
    )


def _act(job_id: UUID, *, actor: str, reason: str | None, tenant_id: str | None) -> tuple[Arg, ...]:
    for name, text in (("actor", actor), ("reason", reason), ("tenant_id", tenant_id)):
        payload.check_text(text or "", name)
    return given(
        Arg("job_id", "uuid", job_id),
        Arg("actor", "text", actor),
        Arg("reason", "text", reason),
        Arg("tenant_id", "text", tenant_id),
    )


def _enqueued(rows: Sequence[Row]) -> Enqueued:
    job_id, deduplicated = rows[0]
    return Enqueued(job_id, deduplicated)


def _enqueued_many(rows: Sequence[Row]) -> list[Enqueued]:
    ids, deduplicated = rows[0]
    return [Enqueued(*pair) for pair in zip(ids, deduplicated, strict=True)]


def _payload_at(position: int, new_job: NewJob) -> str:
    try:
        check(new_job)
        return payload.dump(new_job.payload)
    except InvalidJobError as error:
        message = f"The job at position {position} was refused: {error}"
        raise InvalidJobError(message) from error


def _column(values: list[Any]) -> list[Any] | None:
    """Return an option of many jobs as the function takes it: one value that holds for all."""
    if not values or any(value != values[0] for value in values):
        return values or None
    return None if values[0] is None else values[:1]


def _interval(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _names(unique_by: str | Sequence[str] | None) -> list[str] | None:
    if unique_by is None:
        return None
    return [unique_by] if isinstance(unique_by, str) else list(unique_by)


def _json(texts: list[str] | None) -> str | None:
    return None if texts is None else json.dumps(texts)
