"""`/v1/events`: publish events, and show one with the jobs that were made of it.

Publishing answers 202 after the commit: from then on the event has happened, and a relay makes one
job of it for each of its subscriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BeforeValidator, Field, WithJsonSchema

from hudhud.api import document, intake
from hudhud.api.intake import Instant, Name, Small, Strict
from hudhud.domain.event import NewEvent
from hudhud.errors import InvalidEventError
from hudhud.store import events
from hudhud.store.reads import Read
from hudhud.web import body, idempotency, problems
from hudhud.web.auth import Caller
from hudhud.web.body import answer
from hudhud.web.face import bearer, caller_with, face_of
from hudhud.web.idempotency import Act

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hudhud.domain.event import Published

BODY_BYTES_MAX = 131_072
"""A payload at the ceiling of all databases (64 KiB), and what surrounds it."""
BULK_BYTES_MAX = 8_388_608
EVENTS_MAX = 1_000
"""Events of one bulk request."""

router = APIRouter(prefix="/v1/events", tags=["events"], dependencies=[Depends(bearer)])


def _uuid(value: object) -> UUID:
    try:
        return UUID(value if isinstance(value, str) else "")
    except ValueError as error:
        message = "must be an id, such as 0199c0de-0000-7000-8000-000000000000"
        raise intake.refused(message) from error


class AggregateBody(Strict):
    """What an event is about."""

    type: Name
    id: Name


class EventBody(Strict):
    """An event to publish, as a client describes it."""

    type: Name
    payload: Annotated[object, WithJsonSchema({"type": "object"})]
    version: Small = 1
    aggregate: AggregateBody | None = None
    ordered: bool = True
    occurred_at: Instant | None = None
    correlation_id: Name | None = None
    causation_id: (
        Annotated[
            UUID, BeforeValidator(_uuid), WithJsonSchema({"type": "string", "format": "uuid"})
        ]
        | None
    ) = None


class BulkBody(Strict):
    """Many events that are published together, in their order, or not at all."""

    events: Annotated[list[EventBody], Field(min_length=1, max_length=EVENTS_MAX)]


@router.post("", status_code=202, openapi_extra=document.posted(EventBody))
async def publish(
    request: Request, caller: Annotated[Caller, Depends(caller_with("publish"))]
) -> Response:
    """Publish one event.

    202 with its id, its number within its aggregate, and `Location`, once it is committed.
    """
    sent = await body.read_object(request, bytes_max=BODY_BYTES_MAX)
    described = intake.read(EventBody, sent)
    event = _new_event(described, tenant_id=caller.tenant_id, trace=intake.trace_of(request))

    def told(published: Published) -> Response:
        headers = {"location": _path(published.id)}
        return answer(_accepted(published), status=202, headers=headers)

    try:
        act = Act(call=events.publish(event), answer=told)
        return await idempotency.perform(request, caller, sent=sent, act=act)
    except InvalidEventError as error:
        raise intake.refusal(error, at="$.payload") from error


@router.post("/bulk", status_code=202, openapi_extra=document.posted(BulkBody))
async def publish_many(
    request: Request, caller: Annotated[Caller, Depends(caller_with("publish"))]
) -> Response:
    """Publish up to 1,000 events together, in the order of the request, or none of them.

    202 with one answer per event.
    """
    sent = await body.read_object(request, bytes_max=BULK_BYTES_MAX)
    described = intake.read(BulkBody, sent).events
    trace = intake.trace_of(request)
    batch = [_new_event(one, tenant_id=caller.tenant_id, trace=trace) for one in described]

    def told(published: Sequence[Published]) -> Response:
        return answer({"events": [_accepted(one) for one in published]}, status=202)

    try:
        act = Act(call=events.publish_many(batch), answer=told)
        return await idempotency.perform(request, caller, sent=sent, act=act)
    except InvalidEventError as error:
        raise intake.bulk_refusal(error, of="$.events") from error


@router.get("/{event_id}")
async def show(
    request: Request, event_id: str, caller: Annotated[Caller, Depends(caller_with("read"))]
) -> Response:
    """Show one event, and how the jobs stand that were made of it for its subscriptions."""
    read = Read("event_show", {"id": document.id_of(event_id), "tenant_id": caller.tenant_id})
    found = await face_of(request).database.read(read)
    if not found:
        raise problems.not_found()
    return answer(document.event(found[0]))


def _new_event(described: EventBody, *, tenant_id: str, trace: str | None) -> NewEvent:
    about = described.aggregate
    return NewEvent(
        type=described.type,
        payload=cast("Mapping[str, object]", described.payload),  # whoever dumps it checks it
        version=described.version,
        tenant_id=tenant_id,
        aggregate=(about.type, about.id) if about else None,
        ordered=described.ordered,
        occurred_at=described.occurred_at,
        correlation_id=described.correlation_id,
        causation_id=described.causation_id,
        traceparent=trace,
    )


def _path(event_id: UUID) -> str:
    return f"{router.prefix}/{event_id}"


def _accepted(published: Published) -> dict[str, object]:
    return {"id": str(published.id), "sequence": published.sequence}
