"""`hudhud dead` and `hudhud replay`: look at dead jobs, and run them again, corrected or not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from hudhud.cli.database import session
from hudhud.cli.jobs import found
from hudhud.cli.options import Actor, DatabaseUrl, JobId, Json, Reason, Tenant
from hudhud.cli.output import print_one, print_rows
from hudhud.domain import payload
from hudhud.errors import JobNotFoundError
from hudhud.store import jobs

SCAN_MAX = 100_000
GROUP_COLUMNS = (
    "count",
    "open_count",
    "type",
    "last_error_code",
    "fingerprint",
    "last_seen_at",
    "example_id",
)
COLUMNS = ("id", "type", "last_error_code", "attempts", "finished_at", "run_again_as", "error")

app = typer.Typer(invoke_without_command=True)


@app.callback()
def groups(
    context: typer.Context,
    *,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many groups.")] = 50,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Show the dead jobs grouped by what most likely killed them, the largest group first."""
    if context.invoked_subcommand is not None:
        return
    with session(database_url) as opened:
        rows = opened.rows("dead_groups", tenant_id=tenant, rows_max=limit, scan_max=SCAN_MAX)
    print_rows(rows, GROUP_COLUMNS, as_json=as_json)


@app.command("list")
def list_dead(  # noqa: PLR0913 - one parameter for each option
    *,
    job_type: Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")] = None,
    code: Annotated[str | None, typer.Option(help="Only this last_error_code.")] = None,
    fingerprint: Annotated[str | None, typer.Option(help="Only this group's.")] = None,
    tenant: Tenant = None,
    after: Annotated[UUID | None, typer.Option(help="Only jobs older than this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """List dead jobs, newest first, with the error that ended each."""
    filters: dict[str, object] = {
        "type": job_type,
        "code": code,
        "fingerprint": fingerprint,
        "tenant_id": tenant,
        "after": after,
    }
    with session(database_url) as opened:
        print_rows(found(opened, "dead_page", filters, limit=limit), COLUMNS, as_json=as_json)


@app.command()
def show(
    job_id: JobId, *, tenant: Tenant = None, as_json: Json = False, database_url: DatabaseUrl = None
) -> None:
    """Show one dead job with the history that led there."""
    with session(database_url) as opened:
        rows = opened.rows("job_show", id=job_id, tenant_id=tenant)
    if not rows or rows[0]["status"] != "dead":
        message = f"There is no dead job {job_id}. Look for it with: hudhud jobs show {job_id}"
        raise JobNotFoundError(message)
    print_one(rows[0], as_json=as_json)


@app.command()
def resubmit(  # noqa: PLR0913 - one parameter for each option
    job_id: JobId,
    *,
    corrected: Annotated[
        str, typer.Option("--payload", help="The whole payload as JSON, @file, or - for stdin.")
    ],
    reason: Reason,
    actor: Actor,
    tenant: Tenant = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a corrected new job of a dead one, which keeps its payload; both are linked."""
    call = jobs.resubmit(job_id, _payload(corrected), actor=actor, reason=reason, tenant_id=tenant)
    with session(database_url) as opened:
        print_one({"dead": job_id, "id": opened.call(call)}, as_json=as_json)


def replay(
    job_id: JobId,
    *,
    reason: Reason,
    actor: Actor,
    tenant: Tenant = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a new job of a dead one with the same payload and key; both are linked and audited."""
    call = jobs.replay(job_id, actor=actor, reason=reason, tenant_id=tenant)
    with session(database_url) as opened:
        print_one({"dead": job_id, "id": opened.call(call)}, as_json=as_json)


def _payload(given: str) -> dict[str, object]:
    if given == "-":
        given = sys.stdin.read()
    elif given.startswith("@"):
        given = _text_of(Path(given[1:]))
    return payload.load(given)


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path} cannot be read: {error}"
        raise typer.BadParameter(message, param_hint="--payload") from error
