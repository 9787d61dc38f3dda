"""`hudhud types`: what workers announced that they can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudhud.cli.database import session
from hudhud.cli.options import DatabaseUrl, Json
from hudhud.cli.output import print_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hudhud.cli.database import Session

PAGE_TYPES = 200
COLUMNS = ("type", "version", "queue", "lane", "max_attempts", "announced_at")


def types(*, as_json: Json = False, database_url: DatabaseUrl = None) -> None:
    """List the job types that workers announced; --json shows the fields of their payloads."""
    with session(database_url) as opened:
        print_rows(_announced(opened), COLUMNS, as_json=as_json)


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
