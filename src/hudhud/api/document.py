"""How jobs and events look in JSON, and which reads show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast
from uuid import UUID

from pydantic import ConfigDict, Field

from hudhud.api.intake import Name, Strict
from hudhud.store.reads import Read
from hudhud.web import idempotency, problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    Row = Mapping[str, object]

SCAN_MAX = 20_000
"""Jobs that one page looks at, so that its cost is the same however many there are."""
_LINKS = ("root_id", "replay_of", "resubmit_of", "run_again_as")


class PageQuery(Strict):
    """Which jobs to list; without a field, any."""

    model_config = ConfigDict(extra="forbid", strict=False)

    status: Literal["pending", "running", "succeeded", "retryable", "dead", "cancelled"] | None = (
        None
    )
    type: Name | None = None
    queue: Name | None = None
    tag: Name | None = None
    after: UUID | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


def id_of(text: str) -> UUID:
    """Return the id that a path names; what is no id is as absent as an id that nobody has."""
    try:
        found = UUID(text)
    except ValueError as error:
        raise problems.not_found() from error
    if str(found) != text.lower():
        raise problems.not_found()
    return found


def show_read(job_id: str, tenant_id: str) -> Read:
    """Return the read of one job of a tenant."""
    return Read("job_show", {"id": id_of(job_id), "tenant_id": tenant_id})


def page_read(query: PageQuery, tenant_id: str) -> Read:
    """Return the read of one page of a tenant's jobs."""
    filters = query.model_dump(exclude={"limit"})
    return Read(
        "job_page",
        {**filters, "tenant_id": tenant_id, "rows_max": query.limit, "scan_max": SCAN_MAX},
    )


def job(row: Row, *, is_operator: bool) -> dict[str, object]:
    """Return a row of job_show as the document of one job.

    Args:
        row: All columns of the read.
        is_operator: Whether the reader may see what operators did to the job, and why.
    """
    shown = {key: value for key, value in row.items() if key not in {*_LINKS, "acts"}}
    if is_operator:
        shown["audit"] = row["acts"]
    shown["links"] = {"self": _path(row["id"])} | {
        key.removesuffix("_id"): _path(row[key]) for key in _LINKS if row[key] is not None
    }
    return shown


def event(row: Row) -> dict[str, object]:
    """Return a row of event_show as the document of one event."""
    jobs = cast("Sequence[Row]", row["jobs"])
    return {
        **row,
        "jobs": [{**job, "links": {"self": _path(job["id"])}} for job in jobs],
        "links": {"self": f"/v1/events/{row['id']}"},
    }


def page(rows: Sequence[Row]) -> dict[str, object]:
    """Return the rows of job_page as the document of one page."""
    shown = [
        {key: value for key, value in row.items() if key != "next"}
        for row in rows
        if row["id"] is not None
    ]
    return {"jobs": shown, "next": rows[0]["next"] if rows else None}


def posted(model: type[BaseModel]) -> dict[str, object]:
    """Return what OpenAPI says about a POST: its body, and the header that names the request."""
    key = {
        "name": idempotency.HEADER,
        "in": "header",
        "required": False,
        "description": "Your name for this request. Repeated under it, it is done once, and"
        " answered as it was for 24 hours.",
        "schema": {"type": "string", "minLength": 1, "maxLength": idempotency.KEY_CHARACTERS_MAX},
    }
    return {**takes(model), "parameters": [key]}


def takes(model: type[BaseModel]) -> dict[str, object]:
    """Return what OpenAPI says about a body that a route reads itself, exactly and bounded."""
    schema = model.model_json_schema()
    parts = cast("dict[str, object]", schema.pop("$defs", {}))
    whole = _inlined(schema, parts)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": whole}}}}


def _inlined(schema: object, parts: Mapping[str, object]) -> object:
    """Return a schema with its parts in place of the references to them."""
    if isinstance(schema, list):
        return [_inlined(one, parts) for one in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    keys = cast("dict[str, object]", schema)
    if "$ref" in keys:
        return _inlined(parts[str(keys["$ref"]).rpartition("/")[2]], parts)
    return {key: _inlined(value, parts) for key, value in keys.items()}


def _path(job_id: object) -> str:
    return f"/v1/jobs/{job_id}"
