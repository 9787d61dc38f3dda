"""From the body of a POST to a job that can be enqueued, or to the paths that are wrong.

Everything that is predictable is refused here, before a job exists: unknown fields, wrong types,
instants without an offset, text that the database cannot keep.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from hudhud.domain import payload as payloads
from hudhud.domain import traceparent as traces
from hudhud.domain.job import NewJob, check
from hudhud.errors import InvalidJobError
from hudhud.web import faults, problems
from hudhud.web.problems import FieldError, ProblemError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

    from hudhud.domain.job import Enqueued
    from hudhud.errors import DuplicateJobError, InvalidEventError

SECONDS_MAX = 10 * 366 * 86_400
"""No delay and no key reaches further than ten years."""
JOBS_MAX = 1_000
"""Jobs of one bulk request."""

YEAR_MIN, YEAR_MAX = 2000, 9998

# A refusal by the rules of payloads begins with the path; one by a type's contract has it later.
_PATH = re.compile(r'(?:^|refused: )\$((?:"(?:[^"\\]|\\.)*"|[^\x00-\x20"])*) (.+)', re.DOTALL)
_POSITION = re.compile(r" at position (\d+)")

BodyT = TypeVar("BodyT", bound=BaseModel)


def refused(message: str) -> PydanticCustomError:
    """Return the error that pydantic reports with the field's path; nothing of the input in it."""
    return PydanticCustomError("refused", "{message}", {"message": message})


def _storable(text: str) -> str:
    try:
        payloads.check_text(text, "")
    except InvalidJobError as error:
        raise refused(str(error).strip()) from error
    return text


def _instant(value: object) -> datetime:
    example = "2027-01-15T08:00:00+03:30"
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        instant = None
    if instant is None:
        message = f"must be an instant such as {example}"
    elif instant.utcoffset() is None:
        message = f"must state its offset from UTC, as in {example}"
    elif not YEAR_MIN <= instant.year <= YEAR_MAX:
        message = f"must lie in the years {YEAR_MIN} to {YEAR_MAX}"
    else:
        return instant
    raise refused(message)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, AfterValidator(_storable)]
Name = Annotated[Text, StringConstraints(min_length=1, max_length=200)]
Key = Annotated[Text, StringConstraints(min_length=1, max_length=500)]
Instant = Annotated[
    datetime, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
Seconds = Annotated[float, Field(ge=0, le=SECONDS_MAX, allow_inf_nan=False)]
Fields = Annotated[
    list[Name], BeforeValidator(_as_list), Field(min_length=1, max_length=20, examples=["payload"])
]
Small = Annotated[int, Field(ge=1, le=32_767)]


class Strict(BaseModel):
    """A body that takes the fields it names, each of exactly its type, and no other."""

    model_config = ConfigDict(extra="forbid", strict=True)


class JobBody(Strict):
    """A job to enqueue, as a client describes it."""

    type: Name
    payload: Annotated[object, WithJsonSchema({"type": "object"})]
    version: Small = 1
    queue: Name | None = None
    lane: Literal["critical", "high", "normal", "bulk"] | None = None
    idempotency_key: Key | None = None
    on_conflict: Literal["reject", "return_existing", "replace"] = "return_existing"
    unique_by: Fields | None = None
    unique_for_seconds: Annotated[Seconds, Field(gt=0)] | None = None
    available_at: Instant | None = None
    delay_seconds: Seconds | None = None
    expires_at: Instant | None = None
    max_attempts: Small | None = None
    correlation_id: Name | None = None
    tags: Annotated[list[Name], Field(max_length=20)] = []


class BulkBody(Strict):
    """Many jobs that are accepted together, or not at all."""

    jobs: Annotated[list[JobBody], Field(min_length=1, max_length=JOBS_MAX)]


class ScheduleBody(Strict):
    """When a job that waits is to run; null: now."""

    available_at: Instant | None


class CancellationBody(Strict):
    """Why a job is to be cancelled."""

    reason: Annotated[Text, StringConstraints(max_length=1_000)] | None = None


def read(model: type[BodyT], document: Mapping[str, object]) -> BodyT:
    """Return the document as the model has it.

    Raises:
        ProblemError: 422 that names each wrong field by its JSON path.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise problems.invalid(
            *(FieldError(path(fault["loc"]), fault["msg"]) for fault in faults)
        ) from error


def path(location: Sequence[str | int]) -> str:
    """Return a location as a JSON path: `$.tags[2]`."""
    return "$" + "".join(
        f"[{part}]" if isinstance(part, int) else f".{payloads.step(part)}" for part in location
    )


def trace_of(request: Request) -> str | None:
    """Return the request's place in a trace, None when it names none that can be read."""
    trace = traces.parse(request.headers.get("traceparent"))
    return str(trace) if trace else None


def new_job(
    body: JobBody, *, tenant_id: str, traceparent: str | None = None, at: str = "$"
) -> NewJob:
    """Return the job that a body describes, for the tenant of the caller.

    Args:
        body: What was sent.
        tenant_id: The tenant of the caller's key; a body cannot name another.
        traceparent: The request's, so that the run continues its trace.
        at: JSON path of the body in what was sent, for the errors.

    Raises:
        ProblemError: 422 with the path of what no payload may hold.
        PayloadTooLargeError: For a payload over the ceiling of all databases.
    """
    sent: object = body.payload
    if not isinstance(sent, dict):
        raise problems.invalid(FieldError(f"{at}.payload", "must be a JSON object"))
    payload = cast("dict[str, object]", sent)
    try:
        payloads.dump(payload)
    except InvalidJobError as error:
        raise refusal(error, at=f"{at}.payload") from error
    job = NewJob(
        type=body.type,
        payload=payload,
        version=body.version,
        tenant_id=tenant_id,
        queue=body.queue,
        lane=body.lane,
        idempotency_key=body.idempotency_key,
        on_conflict=body.on_conflict,
        unique_by=body.unique_by,
        unique_for_seconds=body.unique_for_seconds,
        available_at=body.available_at,
        delay_seconds=body.delay_seconds,
        expires_at=body.expires_at,
        max_attempts=body.max_attempts,
        correlation_id=body.correlation_id,
        traceparent=traceparent,
        tags=body.tags,
    )
    try:
        check(job)
    except InvalidJobError as error:
        name, _, problem = str(error).removesuffix(".").partition(" ")
        raise problems.invalid(FieldError(f"{at}.{name}", problem)) from error
    return job


def refuse_expired(job: NewJob, enqueued: Enqueued, now: datetime, *, at: str = "$") -> None:
    """Refuse a new job that nobody could run before it expires.

    A job that was there already is not refused: a repeated request gets the same answer, however
    late it comes.

    Args:
        job: What was enqueued.
        enqueued: What that came to.
        now: The database's time.
        at: JSON path of the job in what was sent.

    Raises:
        ProblemError: 422 that names `expires_at`.
    """
    if job.expires_at is None or enqueued.deduplicated:
        return
    begins_at = job.available_at or now + timedelta(seconds=job.delay_seconds or 0)
    if job.expires_at <= max(now, begins_at):
        message = "must lie in the future, and after the time at which the job becomes available"
        raise problems.invalid(FieldError(f"{at}.expires_at", message))


def refusal(error: InvalidJobError | InvalidEventError, *, at: str) -> ProblemError:
    """Return the 422 for a refused job or event, with the JSON path out of the refusal's message.

    Args:
        error: Its message names a path below the payload (`$.amount must be integer, not string.`)
            or an option of what was refused.
        at: JSON path of the payload in what was sent.
    """
    found = _PATH.search(str(error))
    if found is None:
        return problems.invalid(FieldError(at.removesuffix(".payload"), str(error)))
    return problems.invalid(FieldError(at + found[1], found[2]))


def bulk_refusal(error: InvalidJobError | InvalidEventError, *, of: str = "$.jobs") -> ProblemError:
    """Return the 422 for a bulk request, with the place of what was refused in the list `of`."""
    found = _POSITION.search(str(error))
    place = f"{of}[{int(found[1]) - 1}]" if found else of
    return refusal(error, at=f"{place}.payload")


def bulk_duplicate(error: DuplicateJobError) -> ProblemError:
    """Return the 409 for a bulk request, with the place of the job whose key is taken."""
    problem = faults.of_own(error)
    found = _POSITION.search(str(error))
    if found is not None:
        place = FieldError(f"$.jobs[{int(found[1]) - 1}]", "its idempotency key is taken")
        problem = replace(problem, errors=(place,))
    return ProblemError(problem)


def with_key(sent: Mapping[str, object], key: str | None) -> Mapping[str, object]:
    """Return the body with the request's own key as the job's, unless the body says otherwise.

    The header `Idempotency-Key` names the request. A body that names no key of its job's, nor makes
    one from the payload, gets that one: the job is then the only one of its key for as long as it
    is kept, which is longer than answers are.
    """
    says_otherwise = any(sent.get(name) is not None for name in ("idempotency_key", "unique_by"))
    return sent if key is None or says_otherwise else {**sent, "idempotency_key": key}
