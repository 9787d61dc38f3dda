"""Options and arguments that several commands share."""

from __future__ import annotations

import getpass
from datetime import datetime
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer


def instant_of(text: str) -> datetime:
    """Return an instant as the command line gave it.

    Raises:
        typer.BadParameter: When it is none, or does not state its offset: whose midnight it means
            is nothing that we guess.
    """
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        message = "is no instant; write 2027-01-15T08:00:00+03:30"
        raise typer.BadParameter(message) from error
    if instant.utcoffset() is None:
        message = "must state its offset from UTC, such as +03:30 or Z"
        raise typer.BadParameter(message)
    return instant


Json = Annotated[
    bool, typer.Option("--json", help="Print JSON: one document, or one on each line of a list.")
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database-url", help="PostgreSQL to use, before file and HUDHUD_DATABASE_URL."),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="TOML file to read instead of the nearest one.")
]
Actor = Annotated[
    str,
    typer.Option("--actor", default_factory=getpass.getuser, help="Who does it, for the audit."),
]
Reason = Annotated[str, typer.Option("--reason", help="Why, for the audit.")]
OptionalReason = Annotated[str | None, typer.Option("--reason", help="Why, for the audit.")]
Tenant = Annotated[
    str | None, typer.Option("--tenant", help="Only this tenant's; without, every tenant's.")
]
Personal = Annotated[
    bool, typer.Option("--personal", help="Show the fields that are marked personal, too.")
]
JobId = Annotated[UUID, typer.Argument(help="The job's id.", show_default=False)]
Instant = Annotated[
    datetime,
    typer.Option(parser=instant_of, help="Instant with its offset: 2027-01-15T08:00:00+03:30"),
]
