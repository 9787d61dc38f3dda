"""Planted faults of SQL functions: edits of their files, and how they are planted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from hudhud.store.migrate import SQL

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from bench.chaos.teeth.tooth import Edit, Tooth


def plant(dsn: str, tooth: Tooth) -> None:
    """Put the broken functions in the place of the good ones, in one database.

    Raises:
        LookupError: A function is not as the fault has it.
    """
    texts: dict[str, str] = {}
    for edit in tooth.edits:
        texts[edit.function] = edited(texts.get(edit.function) or text_of(edit.function), edit)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for text in (tooth.before, *texts.values()):
            if text:
                connection.execute(text.encode())


def text_of(function: str) -> str:
    """Return the file of a function.

    Raises:
        LookupError: There is none.
    """
    for area in (SQL / "functions").iterdir():
        file: Traversable = area / f"{function}.sql"
        if file.is_file():
            return file.read_text("utf-8")
    message = f"there is no function {function}"
    raise LookupError(message)


def edited(text: str, edit: Edit) -> str:
    """Return a function's text with an edit.

    Raises:
        LookupError: The text is not there as often as the edit says.
    """
    found = text.count(edit.old)
    if found != edit.times:
        message = f"{edit.function} has {edit.old!r} {found} times, not {edit.times}"
        raise LookupError(message)
    return text.replace(edit.old, edit.new)
