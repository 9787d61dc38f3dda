"""What a job is, which statuses it can have, and which moves lead from one to another.

`MOVES` is the only list of moves. The database enforces them (a move is a compare-and-set in the
SQL function of its verb), a model test holds the two against each other, and what people are
offered (buttons, documentation) is made from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from datetime import datetime
from enum import StrEnum
from operator import attrgetter, is_not
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias, cast

from hudhud.domain.payload import check_text
from hudhud.errors import InvalidJobError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

SMALLINT_MAX = 32_767
SECONDS_MAX = 10 * 366 * 86_400  # no delay and no key reaches further than ten years

OnConflict: TypeAlias = Literal["reject", "return_existing", "replace"]


class Status(StrEnum):
    """A job's status as users see it."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    RETRYABLE = "retryable"
    DEAD = "dead"
    CANCELLED = "cancelled"


FINAL = frozenset({Status.SUCCEEDED, Status.DEAD, Status.CANCELLED})


class Lane(StrEnum):
    """How urgent a job is; tables keep the `number`, everything else the word."""

    CRITICAL = "critical"
    HIGH = "high"
    NORMAL = "normal"
    BULK = "bulk"

    @property
    def number(self) -> int:
        """0 for critical to 3 for bulk, as stored and as `claim` takes it."""
        return list(Lane).index(self)


class Outcome(StrEnum):
    """What a run came to; `lost` is found by a rescuer, the others are settled by a worker."""

    SUCCEED = "succeed"
    RETRY = "retry"
    SNOOZE = "snooze"
    FAIL = "fail"
    CANCEL = "cancel"
    HAND_BACK = "hand_back"
    LOST = "lost"


_UNCLAIMED = {
    "claim": Status.RUNNING,
    "cancel": Status.CANCELLED,
    "replace": Status.CANCELLED,
    "expire": Status.DEAD,
}

# Status → verb → status; None is a job that does not exist yet. What is not listed is refused.
MOVES: Mapping[Status | None, Mapping[str, Status]] = MappingProxyType(
    {
        None: MappingProxyType({"enqueue": Status.PENDING}),
        Status.PENDING: MappingProxyType(
            _UNCLAIMED | {"stage": Status.PENDING, "reschedule": Status.PENDING}
        ),
        Status.RETRYABLE: MappingProxyType(
            _UNCLAIMED | {"stage": Status.RETRYABLE, "reschedule": Status.RETRYABLE}
        ),
        Status.RUNNING: MappingProxyType(
            {
                "succeed": Status.SUCCEEDED,
                "retry": Status.RETRYABLE,
                "snooze": Status.PENDING,
                "fail": Status.DEAD,
                "cancel": Status.CANCELLED,
                "hand_back": Status.PENDING,
                "lost": Status.RETRYABLE,
                "rescue": Status.RETRYABLE,
            }
        ),
        **{status: MappingProxyType({}) for status in sorted(FINAL)},
    }
)

# Where a rule of the database carries out another verb than the one asked for: attempts, crashes
# or age used up, the key taken over by another job, a cancellation that was requested meanwhile.
TURNS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "retry": frozenset({"fail", "cancel"}),
        "lost": frozenset({"fail", "cancel"}),
        "rescue": frozenset({"fail", "cancel"}),
        "snooze": frozenset({"fail", "cancel"}),
        "hand_back": frozenset({"fail", "cancel"}),
        "claim": frozenset({"expire"}),
    }
)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to enqueue.

    `payload` is a JSON object as Python values; `hudhud.domain.payload` says what it may hold.
    `queue`, `lane` and `max_attempts` default to what the type announced. `unique_by` makes the
    idempotency key from the payload ("payload") or from fields of it (their names), and
    `unique_for_seconds` says how long the key holds; without, until the job is pruned. Instants
    carry their zone. `traceparent` is W3C's.
    """

    type: str
    payload: Mapping[str, object]
    _: KW_ONLY
    version: int = 1
    tenant_id: str = "default"
    queue: str | None = None
    lane: str | None = None
    idempotency_key: str | None = None
    on_conflict: OnConflict = "return_existing"
    unique_for_seconds: float | None = None
    unique_by: str | Sequence[str] | None = None
    available_at: datetime | None = None
    delay_seconds: float | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What an enqueue came to: the job's id, and whether the key had made that job before."""

    id: UUID
    deduplicated: bool


def check(new_job: NewJob) -> None:
    """Refuse options that the database could not even be asked about.

    What it can be asked about (lengths, lanes, policies, the payload's contract) is refused by it,
    with the same error class, for callers in every language.

    Raises:
        InvalidJobError: The message begins with the option's name.
    """
    _check_text(new_job.type, "type")
    if is_plain(new_job):
        return  # the defaults are fine
    for name in _TEXTS:
        value = getattr(new_job, name)
        if value is not None:
            _check_text(value, name)
    _check_texts(new_job.tags, "tags")
    if new_job.unique_by is not None and not isinstance(new_job.unique_by, str):
        _check_texts(new_job.unique_by, "unique_by")
    _check_numbers(new_job)
    for name in ("available_at", "expires_at"):
        value = getattr(new_job, name)
        if value is not None and (not isinstance(value, datetime) or value.utcoffset() is None):
            _refuse(f"{name} must be an instant with its zone")
    _check_together(new_job)


def is_plain(new_job: NewJob) -> bool:
    """Say whether all options are the defaults themselves: most jobs, which this makes cheap."""
    return not any(map(is_not, _options_of(new_job), _DEFAULTS))


_OPTIONS = {
    field.name: field.default for field in fields(NewJob) if field.name not in {"type", "payload"}
}
_DEFAULTS = tuple(_OPTIONS.values())
_options_of = attrgetter(*_OPTIONS)

_TEXTS = (
    "tenant_id",
    "queue",
    "lane",
    "idempotency_key",
    "on_conflict",
    "correlation_id",
    "traceparent",
)


def _check_texts(values: object, name: str) -> None:
    if isinstance(values, str) or not isinstance(values, Sequence):
        _refuse(f"{name} must be a list of texts")
    for position, value in enumerate(cast("Sequence[object]", values)):
        _check_text(value, f"{name}[{position}]")


def _check_text(value: object, name: str) -> None:
    if not isinstance(value, str):
        _refuse(f"{name} must be text, not {type(value).__name__}")
    check_text(value, name)


def _check_numbers(new_job: NewJob) -> None:
    for name in ("version", "max_attempts"):
        value = getattr(new_job, name)
        if value is not None and not (type(value) is int and 1 <= value <= SMALLINT_MAX):
            _refuse(f"{name} must be a whole number from 1 to {SMALLINT_MAX}")
    for name in ("delay_seconds", "unique_for_seconds"):
        value = getattr(new_job, name)
        if value is not None and not (_is_number(value) and 0 <= value <= SECONDS_MAX):
            _refuse(f"{name} must be a number from 0 to {SECONDS_MAX}")


def _check_together(new_job: NewJob) -> None:
    """Refuse options of which one would be left out without a word."""
    if new_job.delay_seconds is not None and new_job.available_at is not None:
        _refuse("delay_seconds excludes available_at; give one, not both")
    if new_job.unique_by is not None and new_job.idempotency_key is not None:
        _refuse("unique_by excludes idempotency_key; give one, not both")
    has_key = new_job.idempotency_key is not None or new_job.unique_by is not None
    if new_job.unique_for_seconds is not None and not has_key:
        _refuse("unique_for_seconds needs idempotency_key or unique_by")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _refuse(problem: str) -> NoReturn:
    message = f"{problem}."
    raise InvalidJobError(message)
