"""Say what must have been enqueued, and see what was enqueued instead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from typing_extensions import TypedDict, Unpack

from hudhud.domain.payload import load
from hudhud.drivers.base import arun, run
from hudhud.store.reads import Read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from hudhud.worker.handler import AnyHandler

JOBS_MAX: Final = 1_000  # looked through, the newest; a test that enqueues more counts by itself
SHOWN_MAX: Final = 5

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
    search.look_at(run(connection, search.read()))
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
    search.look_at(await arun(connection, search.read()))
    if not search.is_satisfied:
        raise AssertionError(search.complaint(await arun(connection, Read("testing_types"))))
    return search.found


@dataclass(slots=True)
class _Search:
    """What is looked for, and how each job of the type differs from it."""

    type: str
    payload: Mapping[str, object]
    options: Mapping[str, object]
    count: int | None
    seen: list[tuple[EnqueuedJob, list[str]]] = field(
        default_factory=list[tuple[EnqueuedJob, list[str]]]
    )

    def read(self) -> Read:
        return Read("testing_jobs", {"type": self.type, "amount": JOBS_MAX})

    def look_at(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            fields: dict[str, Any] = dict(row)
            fields["payload"] = load(row["payload"])
            fields["tags"] = tuple(json.loads(row["tags"]))
            job = EnqueuedJob(**fields)
            differences = [*_differences(self.payload, job.payload), *self._other_options(job)]
            self.seen.append((job, differences))

    @property
    def found(self) -> list[EnqueuedJob]:
        return [job for job, differences in self.seen if not differences]

    @property
    def is_satisfied(self) -> bool:
        return bool(self.found) if self.count is None else len(self.found) == self.count

    def complaint(self, types: Sequence[Mapping[str, Any]]) -> str:
        """Say what was looked for, what came closest, and what else there is."""
        return "\n".join([self._headline(), *self._closest(), *self._other_types(types)])

    def _other_options(self, job: EnqueuedJob) -> Iterator[str]:
        for name, value in self.options.items():
            found: object = getattr(job, name)
            if name == "tags":
                missing = sorted(set(cast("Sequence[str]", value)) - set(job.tags))
                if missing:
                    yield f"tags have no {', '.join(map(_shown, missing))}"
            elif found != value:
                yield f"{name} is {_shown(found)}, not {_shown(value)}"

    def _headline(self) -> str:
        parts = [f"payload {_shown(self.payload)}"] if self.payload else []
        parts += [
            f"{name} {_shown(value)}"
            for name, value in self.options.items()
            if (name, value) != ("version", 1)
        ]
        job = f"{self.type} with {' and '.join(parts)}" if parts else self.type
        if self.count is None:
            return f"No job {job}."
        return f"{len(self.found)} jobs {job}, not {self.count}."

    def _closest(self) -> Iterator[str]:
        if self.seen:
            yield "Jobs of this type, the closest first:"
        closest = sorted(self.seen, key=lambda one: len(one[1]))
        for job, differences in closest[:SHOWN_MAX]:
            yield f"  {job.id} {job.status}: {'; '.join(differences) or 'matches'}"
        if len(closest) > SHOWN_MAX:
            yield f"  and {len(closest) - SHOWN_MAX} more"

    def _other_types(self, types: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        others = [one for one in types if one["type"] != self.type]
        if others:
            named = ", ".join(f"{one['type']} ({one['jobs']})" for one in others[:SHOWN_MAX])
            yield f"Other types: {named}"
        if not types:
            yield "There are no jobs at all. Was it enqueued, and can this connection see it?"


def _search(
    handler: HandlerOrType, payload: Mapping[str, object] | None, wanted: Wanted
) -> _Search:
    options: dict[str, object] = dict(wanted)
    count = cast("int | None", options.pop("count", None))
    if isinstance(handler, str):
        return _Search(handler, payload or {}, options, count)
    # Its version is compared without being named, like the type.
    return _Search(handler.type, payload or {}, {"version": handler.version} | options, count)


def _differences(wanted: object, found: object, path: str = "payload") -> Iterator[str]:
    """Say where a value has not what is wanted of it; of objects only the named fields are."""
    if not (isinstance(wanted, Mapping) and isinstance(found, Mapping)):
        yield from _difference(wanted, found, path)  # pyright: ignore[reportUnknownArgumentType]
        return
    inner = cast("Mapping[str, object]", found)
    for name, value in cast("Mapping[str, object]", wanted).items():
        if name in inner:
            yield from _differences(value, inner[name], f"{path}.{name}")
        else:
            yield f"{path}.{name} is not there"


def _difference(wanted: object, found: object, path: str) -> Iterator[str]:
    if _plain(wanted) != _plain(found):
        yield f"{path} is {_shown(found)}, not {_shown(wanted)}"


def _plain(value: object) -> object:
    """Return a tuple as the list that JSON makes of it."""
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value


def _shown(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value) if hasattr(value, "isoformat") else repr(value)
