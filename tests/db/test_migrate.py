"""migrate: one schema from nothing or from anything older, all or nothing, by one of many."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from hudhud.errors import SchemaError
from hudhud.store import migrate
from tests.support.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.server import Server


@pytest.fixture
def empty(server: Server) -> Iterator[str]:
    """Give the direct DSN of a database without our schema."""
    name = f"empty_{uuid.uuid4().hex}"
    yield server.direct(server.create(name, template="template1"))
    server.drop(name)


def session(dsn: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(dsn, autocommit=True, prepare_threshold=None)


# What a schema consists of, as far as a program can tell: columns, indexes, constraints, bodies.
_SHAPE = """
select 'column', c.relname || '.' || a.attname, format_type(a.atttypid, a.atttypmod) || a.attnotnull
from pg_attribute a join pg_class c on c.oid = a.attrelid
where c.relnamespace = 'hudhud'::regnamespace and c.relkind in ('r', 'p', 'v') and a.attnum > 0
union all select 'index', indexname, indexdef from pg_indexes where schemaname = 'hudhud'
union all select 'constraint', conname || conrelid::regclass, pg_get_constraintdef(oid)
from pg_constraint where connamespace = 'hudhud'::regnamespace
union all select 'function', proname, md5(prosrc || coalesce(proconfig::text, '')) || proacl::text
from pg_proc where pronamespace = 'hudhud'::regnamespace
union all select 'applied', path, checksum from hudhud.function_version
order by 1, 2, 3
"""


def shape(dsn: str) -> list[tuple[object, ...]]:
    with session(dsn) as connection:
        return connection.execute(_SHAPE.encode()).fetchall()


def test_an_empty_database_gets_everything_once(empty: str) -> None:
    applied = migrate.apply(empty)
    assert applied == [*migrate.migrations(), *migrate.functions()]
    assert migrate.pending(empty) == migrate.apply(empty) == []
    with session(empty) as connection:
        migrate.require_current(connection)
        assert Verbs(connection).enqueue().version == 7


def test_of_many_that_start_at_once_one_works_and_the_others_find_it_done(empty: str) -> None:
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: migrate.apply(empty), range(6)))
    assert sorted(map(bool, answers)) == [False] * 5 + [True]
    assert migrate.pending(empty) == []


def test_the_printed_script_makes_the_same_schema(
    empty: str, database: str, server: Server
) -> None:
    with session(empty) as connection:
        connection.execute(migrate.script().encode())
    assert migrate.pending(empty) == []
    assert shape(empty) == shape(server.direct(database))


def test_a_function_that_has_changed_is_applied_again_and_stays_closed(
    database: str, server: Server
) -> None:
    dsn = server.direct(database)
    before = shape(dsn)
    with session(dsn) as connection:
        connection.execute("drop function hudhud.enqueue; drop function hudhud.shard_of cascade")
        connection.execute(
            "update hudhud.function_version set checksum = 'old'"
            " where path in ('jobs/enqueue.sql', 'base/shard_of.sql')"
        )
    again = [script.path for script in migrate.apply(dsn)]
    assert again == ["base/shard_of.sql", "jobs/enqueue.sql"]
    assert shape(dsn) == before


@pytest.mark.parametrize("verb", ["apply", "pending", "require_current"])
def test_a_newer_schema_is_refused_with_what_to_do(
    database: str, server: Server, verb: str
) -> None:
    dsn = server.direct(database)
    with session(dsn) as connection:
        connection.execute("insert into hudhud.schema_version values (9999, '9999_future.sql')")
        with pytest.raises(SchemaError, match=r"9999.*Install the newer release"):
            migrate.require_current(connection) if verb == "require_current" else getattr(
                migrate, verb
            )(dsn)


def test_a_missing_and_an_older_schema_are_told_apart(
    empty: str, database: str, server: Server
) -> None:
    with (
        session(empty) as connection,
        pytest.raises(SchemaError, match=r"no hudhud schema.*hudhud migrate"),
    ):
        migrate.require_current(connection)
    newest = migrate.migrations()[-1].number
    with session(server.direct(database)) as connection:
        connection.execute("delete from hudhud.schema_version where number = %s", [newest])
        with pytest.raises(SchemaError, match=rf"at migration {newest - 1}.*needs {newest}"):
            migrate.require_current(connection)


def test_a_function_that_is_missing_is_refused_and_comes_with_migrate(
    database: str, server: Server
) -> None:
    """Whatever was recorded as applied: what is not there cannot be called."""
    dsn = server.direct(database)
    with session(dsn) as connection:
        connection.execute("drop function hudhud.rescue")
        with pytest.raises(SchemaError, match=r"lacks 1 .*rescue.*Run `hudhud migrate`"):
            migrate.require_current(connection)
        assert [script.path for script in migrate.apply(dsn)] == ["upkeep/rescue.sql"]
        migrate.require_current(connection)


def test_functions_of_another_release_are_told_and_keep_no_worker_from_starting(
    database: str, server: Server
) -> None:
    """They may be those of the next release, in an upgrade that is under way."""
    dsn = server.direct(database)
    with session(dsn) as connection:
        connection.execute(
            "update hudhud.function_version set checksum = 'other' where path = 'runs/claim.sql'"
        )
        migrate.require_current(connection)
    told = migrate.told(migrate.pending(dsn))
    assert told.startswith("1 of the functions differ from this release's")
    assert "runs/claim.sql" in told
    assert "`hudhud migrate` of the newest release" in told


def test_a_failure_leaves_nothing_and_names_the_file(empty: str) -> None:
    with session(empty) as connection:
        connection.execute("create schema hudhud; create table hudhud.lease (n integer)")
    with pytest.raises(SchemaError, match=r"0002_jobs\.sql.*nothing"):
        migrate.apply(empty)
    with session(empty) as connection:
        tables = connection.execute(
            "select relname from pg_class where relnamespace = 'hudhud'::regnamespace"
        ).fetchall()
    assert tables == [("lease",)]


def test_a_schema_that_somebody_made_for_us_is_used(empty: str) -> None:
    with session(empty) as connection:
        connection.execute("create schema hudhud")
    assert migrate.apply(empty)
    assert migrate.pending(empty) == []
