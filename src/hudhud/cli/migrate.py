"""`hudhud migrate`: bring the schema to this version, print it, or check it."""

from __future__ import annotations

from typing import Annotated

import typer

from hudhud.cli.database import configured, url_of
from hudhud.cli.options import DatabaseUrl, Json
from hudhud.cli.output import note, print_one
from hudhud.errors import SchemaError
from hudhud.store import migrate as migrations


def migrate(
    *,
    prints: Annotated[
        bool, typer.Option("--print", help="Print the whole schema as SQL; touch no database.")
    ] = False,
    checks: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 4 if something is to be done.")
    ] = False,
    as_json: Json = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Bring the database's schema to this version; safe when several start at once."""
    if prints:
        typer.echo(migrations.script(), nl=False)
        return
    url = url_of(configured(arguments={"database_url": database_url}))
    if checks:
        _check(url, as_json=as_json)
        return
    applied = [script.path for script in migrations.apply(url)]
    if as_json:
        print_one({"applied": applied}, as_json=True)
        return
    for path in applied:
        note(f"applied {path}")
    note(f"The schema is up to date ({len(applied)} files applied).")


def _check(url: str, *, as_json: bool) -> None:
    pending = migrations.pending(url)
    if as_json:
        print_one({"pending": [script.path for script in pending]}, as_json=True)
    if pending:
        raise SchemaError(migrations.told(pending))
    if not as_json:
        note("The schema is up to date.")
