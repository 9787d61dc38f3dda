"""`hudhud effects`: what was done outside, and the decision about what nobody knows."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

import typer

from hudhud.cli.database import Session, session
from hudhud.cli.options import Actor, DatabaseUrl, Json, Reason, Tenant
from hudhud.cli.output import print_one, print_rows
from hudhud.domain.effect import EffectState
from hudhud.domain.payload import RESULT_BYTES_MAX, dump_value
from hudhud.domain.redact import without_secrets
from hudhud.errors import JobNotFoundError
from hudhud.store import effects

COLUMNS: Final = (
    "id",
    "name",
    "provider",
    "state",
    "asks_operator",
    "sends",
    "job_id",
    "job_status",
    "updated_at",
)
OPEN: Final = "open"

EffectId = Annotated[UUID, typer.Argument(help="The effect's id.", show_default=False)]

app = typer.Typer(invoke_without_command=True)


class Decision(StrEnum):
    """What an operator can find out."""

    DONE = "done"
    NOT_DONE = "not-done"


@app.callback()
def list_effects(  # noqa: PLR0913 - one parameter for each option
    context: typer.Context,
    *,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Only those of which nobody knows for sure.")
    ] = False,
    state: Annotated[EffectState | None, typer.Option(help="Only effects that stand so.")] = None,
    provider: Annotated[str | None, typer.Option(help="Only this provider's.")] = None,
    job: Annotated[UUID | None, typer.Option(help="Only this job's, or its replays'.")] = None,
    tenant: Tenant = None,
    after: Annotated[UUID | None, typer.Option(help="Only effects older than this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """List effects, newest first; show one, or decide about one nobody can ask after."""
    if context.invoked_subcommand is not None:
        return
    if unknown and state is not None:
        message = "say --unknown or --state, not both"
        raise typer.BadParameter(message, param_hint="--state")
    with session(database_url) as opened:
        rows = _page(
            opened,
            tenant_id=tenant,
            state=OPEN if unknown else state,
            provider=provider,
            job_id=job,
            after=after,
            rows_max=limit,
        )
    print_rows(rows, COLUMNS, as_json=as_json)


@app.command()
def show(
    effect_id: EffectId,
    *,
    tenant: Tenant = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Show one effect in full."""
    with session(database_url) as opened:
        rows = _page(opened, tenant_id=tenant, id=effect_id, rows_max=1)
    if not rows:
        message = f"There is no effect {effect_id}."
        raise JobNotFoundError(message)
    print_one(rows[0], as_json=as_json)


@app.command()
def decide(  # noqa: PLR0913 - one parameter for each option
    effect_id: EffectId,
    *,
    decision: Annotated[
        Decision, typer.Option("--as", help="What you found out: done or not-done.")
    ],
    reason: Reason,
    actor: Actor,
    result: Annotated[
        str | None, typer.Option(help="For done: what the provider would have answered, as JSON.")
    ] = None,
    tenant: Tenant = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Say what became of an effect; jobs that wait for that go on. Audited, and for good."""
    call = effects.decide_effect(
        effect_id,
        decision.value.replace("-", "_"),
        actor=actor,
        reason=reason,
        result=None if result is None else _json_text(result),
        tenant_id=tenant,
    )
    with session(database_url) as opened:
        freed = opened.call(call)
    print_one({"effect": effect_id, "decision": decision, "jobs_freed": freed}, as_json=as_json)


def _page(opened: Session, **filters: object) -> list[dict[str, object]]:
    names = ("tenant_id", "state", "provider", "job_id", "after", "id")
    return opened.rows("effects_page", **dict.fromkeys(names) | filters)


def _json_text(given: str) -> str:
    try:
        return dump_value(without_secrets(json.loads(given)), bytes_max=RESULT_BYTES_MAX)
    except ValueError as error:
        message = f"is no JSON: {error}"
        raise typer.BadParameter(message, param_hint="--result") from error
