"""What an event is: a versioned fact, written in the transaction that made it true.

`NewEvent` is one to publish, `Event` one as its subscribers get it. `Personal` marks a field of an
event's contract that tells something about a person.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeAlias, TypeVar, cast
from uuid import UUID

from hudhud.domain.payload import check_text
from hudhud.errors import InvalidEventError, InvalidJobError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

SMALLINT_MAX = 32_767
EVENT_BYTES_MAX = 65_536  # the setting event_bytes_max has the last word; it goes no higher


class PersonalMark:
    """Marks an annotation as personal; see `Personal`."""


PERSONAL: Final = PersonalMark()
Personal: TypeAlias = Annotated[T, PERSONAL]
"""`email: Personal[str]`: a field that tells something about a person. Events refuse it, unless
their type states why it needs it: an id, by which subscribers fetch the rest, can be forgotten."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to publish.

    `payload` is a JSON object of at most 16 KiB: ids and references. `aggregate` is (type, id) of
    what it is about; unless `ordered` is False, events of one aggregate are written one after
    another, and numbered. `occurred_at` carries its zone; None is now. `correlation_id` and
    `causation_id` default to those of the run that publishes, else to the event's own id and
    nothing. `traceparent` is W3C's.
    """

    type: str
    payload: Mapping[str, object]
    _: KW_ONLY
    version: int = 1
    tenant_id: str = "default"
    aggregate: tuple[str, str] | None = None
    ordered: bool = True
    occurred_at: datetime | None = None
    correlation_id: str | None = None
    causation_id: UUID | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """What a publish came to: the event's id, and its number within its aggregate, if it has one.

    Numbers count from 1 without gaps, in the order of the aggregate's commits.
    """

    id: UUID
    sequence: int | None


@dataclass(frozen=True, slots=True)
class Event:
    """An event as a subscriber gets it.

    Attributes:
        version: Of the payload as it is here; it was upcast if it was published with a lower one.
        aggregate: (type, id) of what it is about, or None.
        sequence: Its number within the aggregate, from 1; None where no order was wanted.
        position: Its place among all events; for operators, and for `start` of a subscription.
        correlation_id: The flow it belongs to; the event's own id where one begins.
        causation_id: The event or job that it follows from, if any.
    """

    id: UUID
    type: str
    version: int
    tenant_id: str
    aggregate: tuple[str, str] | None
    sequence: int | None
    position: int
    occurred_at: datetime
    correlation_id: str
    causation_id: UUID | None
    payload: Mapping[str, Any]


def read(document: Mapping[str, Any], version: int) -> Event:
    """Return an event from the form in which its jobs carry it, with the payload as published.

    Args:
        document: As the SQL function `event_document` makes it.
        version: Of the payload that the subscriber gets.

    Raises:
        KeyError: Something is missing.
        ValueError: Something cannot be read.
    """
    aggregate: Mapping[str, str] | None = document["aggregate"]
    causation_id: str | None = document["causation_id"]
    return Event(
        id=UUID(document["id"]),
        type=document["type"],
        version=version,
        tenant_id=document["tenant_id"],
        aggregate=None if aggregate is None else (aggregate["type"], aggregate["id"]),
        sequence=document["sequence"],
        position=document["position"],
        occurred_at=datetime.fromisoformat(document["occurred_at"]),
        correlation_id=document["correlation_id"],
        causation_id=None if causation_id is None else UUID(causation_id),
        payload=document["payload"],
    )


def check(new_event: NewEvent) -> None:
    """Refuse options that the database could not even be asked about; it refuses the others.

    Raises:
        InvalidEventError: The message names the option.
    """
    for name in ("type", "tenant_id", "correlation_id", "traceparent"):
        value: object = getattr(new_event, name)
        if value is not None or name in {"type", "tenant_id"}:
            _check_text(value, name)
    _check_aggregate(new_event.aggregate)
    version: object = new_event.version
    if not (type(version) is int and 1 <= version <= SMALLINT_MAX):
        _refuse(f"version must be a whole number from 1 to {SMALLINT_MAX}")
    occurred_at: Any = new_event.occurred_at
    if occurred_at is not None and not _is_instant(occurred_at):
        _refuse("occurred_at must be an instant with its zone")


def _is_instant(value: object) -> bool:
    return isinstance(value, datetime) and value.utcoffset() is not None


def _check_aggregate(aggregate: object) -> None:
    if aggregate is None:
        return
    parts = cast("tuple[object, ...]", aggregate) if isinstance(aggregate, tuple) else ()
    if len(parts) != 2:  # noqa: PLR2004 - the type and the id
        _refuse('aggregate must be its type and its id: ("comment", "7")')
    _check_text(parts[0], "the aggregate's type")
    _check_text(parts[1], "the aggregate's id")


def _check_text(value: object, name: str) -> None:
    if not isinstance(value, str):
        _refuse(f"{name} must be text, not {type(value).__name__}")
    try:
        check_text(value, name)
    except InvalidJobError as error:
        raise InvalidEventError(str(error)) from error


def _refuse(problem: str) -> NoReturn:
    message = f"{problem}."
    raise InvalidEventError(message)
