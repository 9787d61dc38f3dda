"""Say what must have been published, and see what was published instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import TypedDict, Unpack

from hudhud.domain.payload import load
from hudhud.drivers.base import arun, run
from hudhud.store.reads import Read
from hudhud.testing.search import LOOKED_AT_MAX, Search

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class PublishedEvent:
    """An event as it was published. `aggregate` is (type, id), or None."""

    id: UUID
    type: str
    version: int
    tenant_id: str
    payload: Mapping[str, Any]
    aggregate: tuple[str, str] | None
    sequence: int | None
    correlation_id: str
    causation_id: UUID | None
    traceparent: str | None
    occurred_at: datetime


class WantedEvent(TypedDict, total=False):
    """Options to compare; `count` is how many events must match."""

    version: int
    tenant_id: str
    aggregate: tuple[str, object] | None
    sequence: int | None
    correlation_id: str
    causation_id: UUID | None
    traceparent: str | None
    occurred_at: datetime
    count: int


def assert_published(
    connection: object,
    event_type: str,
    payload: Mapping[str, object] | None = None,
    **wanted: Unpack[WantedEvent],
) -> list[PublishedEvent]:
    """Assert that events were published, also in the connection's own open transaction.

    Args:
        connection: Synchronous, of any driver that hudhud knows.
        event_type: What happened.
        payload: The part of the payload that must be equal, nested objects included.
        wanted: See `WantedEvent`; what is not named is not compared.

    Returns:
        The events that match, newest first; of those at least one, or as many as `count` says.

    Raises:
        AssertionError: With the events that come closest, and where they differ.

    Source: store/sql/reads/testing_events.sql
    """
    search = _search(event_type, payload, wanted)
    search.look_at(_seen(run(connection, _read(search))))
    if not search.is_satisfied:
        raise AssertionError(search.complaint(run(connection, Read("testing_event_types"))))
    return search.found


async def aassert_published(
    connection: object,
    event_type: str,
    payload: Mapping[str, object] | None = None,
    **wanted: Unpack[WantedEvent],
) -> list[PublishedEvent]:
    """Do as `assert_published` does, on an asynchronous connection."""
    search = _search(event_type, payload, wanted)
    search.look_at(_seen(await arun(connection, _read(search))))
    if not search.is_satisfied:
        types = await arun(connection, Read("testing_event_types"))
        raise AssertionError(search.complaint(types))
    return search.found


def _search(
    event_type: str, payload: Mapping[str, object] | None, wanted: WantedEvent
) -> Search[PublishedEvent]:
    options: dict[str, object] = dict(wanted)
    count = cast("int | None", options.pop("count", None))
    if aggregate := wanted.get("aggregate"):
        options["aggregate"] = (aggregate[0], str(aggregate[1]))
    return Search("event", event_type, payload or {}, options=options, count=count)


def _read(search: Search[PublishedEvent]) -> Read:
    return Read("testing_events", {"type": search.type, "amount": LOOKED_AT_MAX})


def _seen(rows: Sequence[Mapping[str, Any]]) -> Iterator[PublishedEvent]:
    for row in rows:
        fields: dict[str, Any] = dict(row)
        about = (fields.pop("aggregate_type"), fields.pop("aggregate_id"))
        fields["aggregate"] = None if about[0] is None else about
        fields["payload"] = load(row["payload"])
        yield PublishedEvent(**fields)
