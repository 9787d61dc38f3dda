"""`hudhud events`: what was published, who gets it and how far they are, and what holds it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, cast
from uuid import UUID

import typer

from hudhud.cli.database import Session, session
from hudhud.cli.jobs import found
from hudhud.cli.options import (
    Actor,
    DatabaseUrl,
    Json,
    OptionalReason,
    Personal,
    Reason,
    Tenant,
)
from hudhud.cli.output import hidden, print_one, print_rows
from hudhud.errors import HudhudError
from hudhud.store import events

if TYPE_CHECKING:
    from collections.abc import Mapping

COLUMNS: Final = (
    "id",
    "type",
    "version",
    "aggregate",
    "sequence",
    "position",
    "occurred_at",
    "tenant_id",
)
SUBSCRIPTION_COLUMNS: Final = (
    "name",
    "event_type",
    "state",
    "is_silent",
    "waiting",
    "oldest_seconds",
    "routed",
    "skipped",
)
STALL_COLUMNS: Final = (
    "kind",
    "subscription",
    "pid",
    "role",
    "application",
    "state",
    "since",
    "seconds",
)
COUNT_MAX: Final = 10_000

Name = Annotated[str, typer.Argument(help="The subscription's name.", show_default=False)]

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_events(  # noqa: PLR0913 - one parameter for each option
    *,
    event_type: Annotated[str | None, typer.Option("--type", help="Only of this type.")] = None,
    aggregate: Annotated[
        tuple[str, str] | None, typer.Option(help="Only about this: its type and its id.")
    ] = None,
    correlation: Annotated[str | None, typer.Option(help="Only of this correlation_id.")] = None,
    tenant: Tenant = None,
    after: Annotated[UUID | None, typer.Option(help="Only events older than this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """List events, newest first."""
    aggregate_type, aggregate_id = aggregate or (None, None)
    filters: dict[str, object] = {
        "tenant_id": tenant,
        "type": event_type,
        "aggregate_type": aggregate_type,
        "aggregate_id": aggregate_id,
        "correlation_id": correlation,
        "after": after,
    }
    with session(database_url) as opened:
        print_rows(found(opened, "event_page", filters, limit=limit), COLUMNS, as_json=as_json)


@app.command()
def show(
    event_id: Annotated[UUID, typer.Argument(help="The event's id.", show_default=False)],
    *,
    personal: Personal = False,
    tenant: Tenant = None,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Show one event: its payload, how far each subscription is with it, and the jobs it became."""
    with session(database_url) as opened:
        rows = opened.rows("event_show", id=event_id, tenant_id=tenant)
        if not rows:
            message = f"There is no event {event_id}. Events are kept for a week, unless set so."
            raise HudhudError(message)
        routes = opened.rows("event_routes", id=event_id)
    document = {**rows[0], "routes": [_route(route) for route in routes if route["subscription"]]}
    if not personal:
        payload = cast("Mapping[str, object]", document["payload"])
        document["payload"] = hidden(payload, cast("list[str]", routes[0]["personal_fields"]))
    print_one(document, as_json=as_json)


@app.command()
def subscriptions(*, as_json: Json = False, database_url: DatabaseUrl = None) -> None:
    """List subscriptions: how far each is, and what waits for it."""
    with session(database_url) as opened:
        rows = opened.rows("subscriptions", count_max=COUNT_MAX)
    print_rows(rows, SUBSCRIPTION_COLUMNS, as_json=as_json)


@app.command()
def stalls(
    *,
    seconds: Annotated[
        float, typer.Option(min=0, help="Only transactions that take longer than that.")
    ] = 10,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Name the sessions that hold events up: they published, or hold a subscription, and go on."""
    with session(database_url) as opened:
        rows = [one._asdict() for one in opened.call(events.relay_stalls(seconds))]
    print_rows(rows, STALL_COLUMNS, as_json=as_json)


@app.command()
def pause(
    name: Name,
    *,
    reason: OptionalReason = None,
    actor: Actor,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Route nothing more to a subscription for now; its events are kept."""
    with session(database_url) as opened:
        _change(opened, name, "paused", actor=actor, reason=reason, as_json=as_json)


@app.command()
def resume(
    name: Name,
    *,
    reason: OptionalReason = None,
    actor: Actor,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Let a subscription go on from where it was paused or stopped, as far as events are kept."""
    with session(database_url) as opened:
        _change(opened, name, "active", actor=actor, reason=reason, as_json=as_json)


@app.command()
def stop(
    name: Name,
    *,
    reason: Reason,
    actor: Actor,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Route nothing more to a subscription that is not needed any more, and keep nothing for it."""
    with session(database_url) as opened:
        _change(opened, name, "stopped", actor=actor, reason=reason, as_json=as_json)


@app.command()
def rebase(
    *, reason: Reason, actor: Actor, as_json: Json = False, database_url: DatabaseUrl = None
) -> None:
    """Let a restored copy of a database route its events itself, from where the original was."""
    with session(database_url) as opened:
        epoch = opened.call(events.rebase(actor=actor, reason=reason))
    print_one({"epoch": epoch}, as_json=as_json)


def _route(route: Mapping[str, object]) -> dict[str, object]:
    return {name: route[name] for name in ("subscription", "state", "route")}


def _change(
    opened: Session,
    name: str,
    state: Literal["active", "paused", "stopped"],
    *,
    actor: str,
    reason: str | None,
    as_json: bool,
) -> None:
    before = opened.call(events.change_subscription(name, state, actor=actor, reason=reason))
    print_one({"name": name, "state": state, "before": before}, as_json=as_json)
