"""`hudhud jobs` and `types`: list, show, cancel, run now, reschedule; the contracts they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast
from uuid import UUID

import typer

from hudhud.cli.database import Session, session
from hudhud.cli.options import (
    Actor,
    DatabaseUrl,
    Instant,
    JobId,
    Json,
    OptionalReason,
    Personal,
    Tenant,
)
from hudhud.cli.output import hidden, note, print_one, print_rows
from hudhud.domain.job import Status
from hudhud.errors import JobNotFoundError
from hudhud.store import jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE_JOBS = 200
SCAN_MAX = 20_000
"""Jobs that one statement looks at; a rare status takes several."""
COLUMNS = (
    "id",
    "type",
    "status",
    "queue",
    "attempts",
    "last_error_code",
    "created_at",
    "tenant_id",
)
PAGE_TYPES = 200
TYPE_COLUMNS = ("type", "version", "queue", "lane", "max_attempts", "announced_at")

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_jobs(  # noqa: PLR0913 - one parameter for each option
    *,
    status: Annotated[Status | None, typer.Option(help="Only jobs of this status.")] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only jobs of this queue.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only jobs with this tag.")] = None,
    tenant: Tenant = None,
    after: Annotated[UUID | None, typer.Option(help="Only jobs older than this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """List jobs, newest first."""
    filters: dict[str, object] = {
        "status": status,
        "type": job_type,
        "queue": queue,
        "tag": tag,
        "tenant_id": tenant,
        "after": after,
    }
    with session(database_url) as opened:
        print_rows(found(opened, "job_page", filters, limit=limit), COLUMNS, as_json=as_json)


@app.command()
def show(
    job_id: JobId,
    *,
    personal: Personal = False,
    tenant: Tenant = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Show one job: status, payload, result, attempts, log, and what was done to it."""
    with session(database_url) as opened:
        rows = opened.rows("job_show", id=job_id, tenant_id=tenant)
        if not rows:
            raise JobNotFoundError
        marked = opened.rows("job_personal", id=job_id)
    job = rows[0]
    if marked and not personal:
        event = cast("dict[str, Any]", job["payload"])["event"]
        fields = cast("list[str]", marked[0]["personal_fields"])
        event["payload"] = hidden(event["payload"], fields)
    print_one(job, as_json=as_json)


@app.command()
def cancel(
    job_id: JobId,
    *,
    reason: OptionalReason = None,
    actor: Actor,
    tenant: Tenant = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Cancel a job: at once when it waits, by request when it runs."""
    call = jobs.cancel(job_id, actor=actor, reason=reason, tenant_id=tenant)
    with session(database_url) as opened:
        print_one({"id": job_id, "cancellation": opened.call(call)}, as_json=as_json)


@app.command("run-now")
def run_now(
    job_id: JobId,
    *,
    reason: OptionalReason = None,
    actor: Actor,
    tenant: Tenant = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Let a job that waits for its time run now."""
    call = jobs.reschedule(job_id, None, actor=actor, reason=reason, tenant_id=tenant)
    with session(database_url) as opened:
        opened.call(call)
    print_one({"id": job_id, "available_at": None}, as_json=as_json)


@app.command()
def reschedule(  # noqa: PLR0913 - one parameter for each option
    job_id: JobId,
    *,
    at: Instant,
    reason: OptionalReason = None,
    actor: Actor,
    tenant: Tenant = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Let a job that waits run at another time."""
    with session(database_url) as opened:
        opened.call(jobs.reschedule(job_id, at, actor=actor, reason=reason, tenant_id=tenant))
    print_one({"id": job_id, "available_at": at}, as_json=as_json)


def found(
    opened: Session, read: str, filters: dict[str, object], *, limit: int
) -> Iterator[dict[str, object]]:
    """Yield rows of a paged read until there are `limit` or no more, page after page.

    Args:
        opened: The database.
        read: `job_page` or `dead_page`.
        filters: Its parameters but rows_max and scan_max; `after` is where to begin.
        limit: Rows at most.
    """
    after, left, looked_at = filters["after"], limit, 0
    while left:
        page = {**filters, "after": after, "rows_max": min(left, PAGE_JOBS), "scan_max": SCAN_MAX}
        rows = opened.rows(read, **page)
        for row in rows:
            after = row.pop("next")
            if row["id"] is not None:
                left -= 1
                yield row
        if not rows or after is None:
            return
        looked_at += SCAN_MAX
        if left and looked_at % (10 * SCAN_MAX) == 0:
            note(f"looked at more than {looked_at} jobs …")


def types(*, as_json: Json = False, database_url: DatabaseUrl = None) -> None:
    """List the job types that workers announced; --json shows the fields of their payloads."""
    with session(database_url) as opened:
        print_rows(_announced(opened), TYPE_COLUMNS, as_json=as_json)


def _announced(opened: Session) -> Iterator[dict[str, object]]:
    last: dict[str, object] = {"type": None, "version": None}
    while True:
        rows = opened.rows(
            "types_page",
            after_type=last["type"],
            after_version=last["version"],
            rows_max=PAGE_TYPES,
        )
        yield from rows
        if len(rows) < PAGE_TYPES:
            return
        last = rows[-1]
