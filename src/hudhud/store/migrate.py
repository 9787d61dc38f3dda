"""Bring a database to this release's schema: migrations forward, functions as their files say.

Everything happens in one transaction under one lock, so several may start at once and a failure
leaves nothing half done.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import psycopg

from hudhud.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from importlib.resources.abc import Traversable

SQL = resources.files("hudhud.store") / "sql"
FUNCTION_AREAS = (
    *("base", "history", "views"),
    *("jobs", "runs", "idempotency", "effects", "events", "upkeep", "keys"),
)
DAYS_AHEAD = 14

_LOCK = "select pg_advisory_xact_lock(hashtext('hudhud.migrate'))"
_SCHEMA = "create schema if not exists hudhud"
# Nobody runs a verb who was not granted it.
_CLOSE = "revoke execute on all functions in schema hudhud from public"
_MAKES = re.compile(r"^create or replace (?:function|view) hudhud\.(\w+)", re.MULTILINE)
# Out of the catalogs, which any role may read.
_OBJECTS = """
select proname::text from pg_catalog.pg_proc where pronamespace = to_regnamespace('hudhud')
union select relname::text from pg_catalog.pg_class
where relnamespace = to_regnamespace('hudhud') and relkind = 'v'
"""
_PARTITIONS = f"select hudhud.make_partitions({DAYS_AHEAD})"


@dataclass(frozen=True, slots=True)
class Script:
    """One SQL file: a migration (with its number) or a function (number 0)."""

    path: str
    text: str
    number: int = 0

    @property
    def checksum(self) -> str:
        """SHA-256 of the file's text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def makes(self) -> str:
        """Name of the function or view that this file makes; not for migrations."""
        found = _MAKES.search(self.text)
        assert found is not None, self.path
        return found[1]


def migrations() -> list[Script]:
    """Return all migrations of this release in order."""
    return [
        Script(file.name, file.read_text("utf-8"), int(file.name.split("_", 1)[0]))
        for file in _files(SQL / "migrations")
    ]


def functions() -> list[Script]:
    """Return all functions and views of this release, those that others are built on first."""
    return [
        Script(f"{area}/{file.name}", file.read_text("utf-8"))
        for area in FUNCTION_AREAS
        for file in _files(SQL / "functions" / area)
    ]


def script() -> str:
    """Return the whole schema as one script, for teams that apply it with a tool of their own."""
    parts = [f"{_SCHEMA};"]
    for item in (*migrations(), *functions()):
        parts += [f"-- {item.path}", item.text, f"{_record(item)};"]
    parts += [f"{_PARTITIONS};", f"{_CLOSE};"]
    return "begin;\n\n" + "\n\n".join(parts) + "\n\ncommit;\n"


def pending(dsn: str) -> list[Script]:
    """Return what apply() would run on this database, in order; empty when it is up to date.

    Raises:
        SchemaError: When the database is newer than this release.
        psycopg.OperationalError: When the database cannot be reached.
    """
    with psycopg.connect(dsn) as connection:
        return _pending(connection)


def apply(dsn: str) -> list[Script]:
    """Bring the database to this release's schema and return what was run.

    The role needs CREATE on the database, nothing more. Safe when several start at once: one
    works, the others wait and find nothing to do.

    Raises:
        SchemaError: When the database is newer than this release, or refuses a part of it.
        psycopg.OperationalError: When the database cannot be reached.
    """
    with psycopg.connect(dsn) as connection:
        connection.execute(_LOCK)
        if not _has_schema(connection):
            connection.execute(_SCHEMA)
        todo = _pending(connection)
        for item in todo:
            try:
                connection.execute(item.text.encode())
            except psycopg.Error as error:
                message = f"{item.path} could not be applied, and so nothing was: {error}"
                raise SchemaError(message) from error
            connection.execute(_record(item).encode())
        connection.execute(_PARTITIONS.encode())
        if todo:
            connection.execute(_CLOSE)
    return todo


def told(todo: Sequence[Script]) -> str:
    """Return in a sentence what is to be applied, and how.

    Functions of an older release and of a newer one look the same here: different. Hence it is
    said whose `hudhud migrate` is meant, and no worker is kept from starting.
    """
    first = f"the first is {todo[0].path}"
    if todo[0].number:
        return f"{len(todo)} files are to be applied, {first}. Run `hudhud migrate`."
    return (
        f"{len(todo)} of the functions differ from this release's, {first}."
        " Run `hudhud migrate` of the newest release in use here."
    )


def require_current(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Refuse to work on a schema that this release does not fit.

    Raises:
        SchemaError: With what to run, when the schema is missing, older or newer, or lacks a
            function. That a function differs is no reason: during an upgrade the newer release's
            functions serve the older one's workers.
    """
    require(_applied_number(connection), _objects(connection))


def require(applied: int | None, objects: Collection[str]) -> None:
    """Refuse a schema by the number of its newest migration and the names of its functions.

    Args:
        applied: None when there is no schema.
        objects: Functions and views of the schema.

    Raises:
        SchemaError: As `require_current`.
    """
    newest, needed = _needed()
    if applied is None:
        message = "This database has no hudhud schema yet. Run `hudhud migrate`."
        raise SchemaError(message)
    if applied < newest:
        message = (
            f"The schema is at migration {applied}, this release needs {newest}."
            " Run `hudhud migrate`."
        )
        raise SchemaError(message)
    if applied > newest:
        raise SchemaError(_too_new(applied, newest))
    if missing := sorted(needed.difference(objects)):
        message = (
            f"The schema lacks {len(missing)} of this release's functions, the first is"
            f" {missing[0]}. Run `hudhud migrate`."
        )
        raise SchemaError(message)


@cache
def _needed() -> tuple[int, frozenset[str]]:
    return migrations()[-1].number, frozenset(script.makes for script in functions())


def _files(folder: Traversable) -> list[Traversable]:
    return sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)


def _pending(connection: psycopg.Connection[tuple[object, ...]]) -> list[Script]:
    applied = _applied_number(connection)
    known = migrations()
    if applied is None:
        return [*known, *functions()]
    if applied > known[-1].number:
        raise SchemaError(_too_new(applied, known[-1].number))
    rows = connection.execute("select path, checksum from hudhud.function_version").fetchall()
    checksums = {str(path): str(checksum) for path, checksum in rows}
    objects = _objects(connection)
    return [
        *(m for m in known if m.number > applied),
        *(f for f in functions() if checksums.get(f.path) != f.checksum or f.makes not in objects),
    ]


def _has_schema(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    return connection.execute("select to_regnamespace('hudhud') is not null").fetchone() == (True,)


def _applied_number(connection: psycopg.Connection[tuple[object, ...]]) -> int | None:
    """Number of the last applied migration; None for a database without our schema."""
    if connection.execute("select to_regclass('hudhud.schema_version') is not null").fetchone() != (
        True,
    ):
        return None
    row = connection.execute("select max(number) from hudhud.schema_version").fetchone()
    return int(str(row[0])) if row and row[0] is not None else None


def _objects(connection: psycopg.Connection[tuple[object, ...]]) -> frozenset[str]:
    """Names of the functions and views that there are, whatever was recorded."""
    return frozenset(str(name) for (name,) in connection.execute(_OBJECTS).fetchall())


def _record(item: Script) -> str:
    """Return the statement that notes what was applied; paths and sums are our own."""
    if item.number:
        return (
            "insert into hudhud.schema_version (number, name)"  # noqa: S608 - our own file names
            f" values ({item.number}, '{item.path}')"
        )
    return (
        "insert into hudhud.function_version (path, checksum)"  # noqa: S608 - our own file names
        f" values ('{item.path}', '{item.checksum}')"
        " on conflict (path) do update set checksum = excluded.checksum"
    )


def _too_new(applied: int, newest: int) -> str:
    return (
        f"The database is at migration {applied}, but this release of hudhud knows only {newest}. "
        "Install the newer release, or point HUDHUD_DATABASE_URL at the right database."
    )
