"""Say what must have been enqueued, and see what was enqueued instead."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from typing_extensions import TypedDict, Unpack

from hudhud.domain.payload import load
from hudhud.drivers.base import arun, run
from hudhud.store.reads import Read
from hudhud.testing.search import LOOKED_AT_MAX, Search

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from hudhud.worker.handler import AnyHandler

HandlerOrType: TypeAlias = "AnyHandler | str"


@dataclass(frozen=True, slots=True)
class EnqueuedJob:
    """A job as it was enqueued. `delay_seconds` is from its creation to its time, or None."""

    id: UUID
    type: str
    version: int
    tenant_id: str
    queue: str
    lane: str
    payload: Mapping[str, Any]
    status: str
    idempotency_key: str | None
    correlation_id: str | None
    traceparent: str | None
    max_attempts: int
    delay_seconds: float | None
    available_at: datetime | None
    expires_at: datetime | None
    tags: tuple[str, ...]
    created_at: datetime


class Wanted(TypedDict, total=False):
    """Options to compare; `tags` are those that must be there, `count` how many jobs must match."""

    version: int
    tenant_id: str
    queue: str
    lane: str
    status: str
    idempotency_key: str | None
    correlation_id: str | None
    traceparent: str | None
    max_attempts: int
    delay_seconds: float | None
    available_at: datetime | None
    expires_at: datetime | None
    tags: Sequence[str]
    count: int


def assert_enqueued(
    connection: object,
    handler: HandlerOrType,
    payload: Mapping[str, object] | None = None,
    **wanted: Unpack[Wanted],
) -> list[EnqueuedJob]:
    """Assert that jobs were enqueued, also in the connection's own open transaction.

    Args:
        connection: Synchronous, of any driver that hudhud knows.
        handler: A handler, or a type's name.
        payload: The part of the payload that must be equal, nested objects included.
        wanted: See `Wanted`; what is not named is not compared.

    Returns:
        The jobs that match, newest first; of those at least one, or as many as `count` says.

    Raises:
        AssertionError: With the jobs that come closest, and where they differ.

    Source: store/sql/reads/testing_jobs.sql
    """
    search = _search(handler, payload, wanted)
    search.look_at(_seen(run(connection, _read(search))))
    if not search.is_satisfied:
        raise AssertionError(search.complaint(run(connection, Read("testing_types"))))
    return search.found


async def aassert_enqueued(
    connection: object,
    handler: HandlerOrType,
    payload: Mapping[str, object] | None = None,
    **wanted: Unpack[Wanted],
) -> list[EnqueuedJob]:
    """Do as `assert_enqueued` does, on an asynchronous connection."""
    search = _search(handler, payload, wanted)
    search.look_at(_seen(await arun(connection, _read(search))))
    if not search.is_satisfied:
        raise AssertionError(search.complaint(await arun(connection, Read("testing_types"))))
    return search.found


def _search(
    handler: HandlerOrType, payload: Mapping[str, object] | None, wanted: Wanted
) -> Search[EnqueuedJob]:
    options: dict[str, object] = dict(wanted)
    count = cast("int | None", options.pop("count", None))
    if isinstance(handler, str):
        return Search("job", handler, payload or {}, options=options, count=count)
    # Its version is compared without being named, like the type.
    own = {"version": handler.version} | options
    return Search("job", handler.type, payload or {}, options=own, count=count)


def _seen(rows: Sequence[Mapping[str, Any]]) -> Iterator[EnqueuedJob]:
    for row in rows:
        fields: dict[str, Any] = dict(row)
        fields["payload"] = load(row["payload"])
        fields["tags"] = tuple(json.loads(row["tags"]))
        yield EnqueuedJob(**fields)


def _read(search: Search[EnqueuedJob]) -> Read:
    return Read("testing_jobs", {"type": search.type, "amount": LOOKED_AT_MAX})
