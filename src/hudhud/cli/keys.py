"""`hudhud keys`: make, list and revoke the API keys of the HTTP face."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from hudhud.cli.database import session
from hudhud.cli.options import Actor, DatabaseUrl, Json, Tenant
from hudhud.cli.output import print_one, print_rows
from hudhud.domain import api_key
from hudhud.store import keys

if TYPE_CHECKING:
    from hudhud.cli.database import Session

PAGE_KEYS = 200
COLUMNS = ("id", "name", "tenant_id", "scopes", "created_at", "created_by", "revoked_at")

app = typer.Typer(no_args_is_help=True)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for, for the list.")],
    *,
    tenant: Annotated[str, typer.Option(help="The tenant that the key acts for.")] = "default",
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", help=f"One of {', '.join(api_key.SCOPES)}; may be repeated."),
    ] = None,
    actor: Actor,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a key and print it: this is the only time that it is shown."""
    with session(database_url) as opened:
        granted = scopes or ["enqueue", "read"]
        key_id, key = make_key(opened, name, tenant, scopes=granted, actor=actor)
    print_one({"id": key_id, "tenant_id": tenant, "scopes": granted, "key": key}, as_json=as_json)


@app.command("list")
def list_keys(
    *, tenant: Tenant = None, as_json: Json = False, database_url: DatabaseUrl = None
) -> None:
    """List keys, the revoked ones too; never their secrets."""
    with session(database_url) as opened:
        rows: list[dict[str, object]] = []
        page = opened.rows("keys_page", tenant_id=tenant, after=None, rows_max=PAGE_KEYS)
        while page:
            rows += page
            page = opened.rows(
                "keys_page", tenant_id=tenant, after=page[-1]["id"], rows_max=PAGE_KEYS
            )
    print_rows(rows, COLUMNS, as_json=as_json)


@app.command()
def revoke(
    key_id: Annotated[UUID, typer.Argument(help="The key's id, as the list shows it.")],
    *,
    actor: Actor,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Make a key useless; a running server believes it for five more seconds at most."""
    with session(database_url) as opened:
        opened.call(keys.revoke_key(key_id, actor=actor))
    print_one({"id": key_id, "revoked": True}, as_json=as_json)


def make_key(
    opened: Session, name: str, tenant: str, *, scopes: list[str], actor: str
) -> tuple[UUID, str]:
    """Make a key and return its id and its text; the database never sees its secret."""
    secret = api_key.new_secret()
    call = keys.create_key(
        name, tenant, scopes, secret_hash=api_key.secret_hash(secret), actor=actor
    )
    key_id = opened.call(call)
    return key_id, api_key.key_text(key_id, secret)
