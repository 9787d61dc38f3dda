"""Who may run what: nobody what was not granted; with EXECUTE alone one can enqueue."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.server import Server


@pytest.fixture
def shop(server: Server, shared_database: str) -> Iterator[Verbs]:
    """Give the verbs as a role that may use the schema and run enqueue, and nothing else."""
    role = f"shop_{uuid.uuid4().hex}"
    with psycopg.connect(server.admin(shared_database)) as connection:
        for statement in (
            f"create role {role}",
            f"grant usage on schema hudhud to {role}",
            f"grant execute on function hudhud.enqueue to {role}",
            f"set local role {role}",
        ):
            connection.execute(statement.encode())
        yield Verbs(connection)
        connection.rollback()


def test_a_role_with_execute_alone_can_enqueue_with_every_option(shop: Verbs) -> None:
    first = shop.enqueue("mail", {"a": 1}, queue="post", lane="high", tags=["x"])
    assert first.version == 7
    keyed = shop.enqueue(idempotency_key="k")
    assert shop.enqueue(idempotency_key="k") == keyed
    assert shop.enqueue(idempotency_key="k", on_conflict="replace") != keyed
    shop.answer("enqueue", type="mail", payload={}, unique_by=["payload"], unique_for="1 hour")
    shop.enqueue(delay="1 hour", max_attempts=3)


def test_its_refusals_are_as_for_anybody(shop: Verbs) -> None:
    with shop.refused("HH001", "lane"):
        shop.enqueue(lane="urgent")
    with shop.refused("HH002"):
        shop.enqueue(payload={"a": "x" * 70_000})


def test_it_reads_and_writes_no_table_and_no_view(shop: Verbs) -> None:
    shop.enqueue()
    tables = shop.values(
        "select relname from pg_class"
        " where relnamespace = 'hudhud'::regnamespace and relkind in ('r', 'p', 'v')"
    )
    assert {"job", "ready", "setting", "api_key", "job_status"} <= set(tables)
    rights = shop.values(
        "select c.relname || ' ' || p from pg_class c,"
        " unnest(array['select', 'insert', 'update', 'delete', 'truncate']) p"
        " where relnamespace = 'hudhud'::regnamespace and relkind in ('r', 'p', 'v')"
        " and has_table_privilege(current_user, c.oid, p)"
    )
    assert rights == []
    for table in ("job", "api_key", "job_status"):
        with shop.refused("42501", table):
            shop.rows(f"select * from hudhud.{table}")  # noqa: S608


def test_it_runs_no_other_function(shop: Verbs) -> None:
    runnable = shop.values(
        "select proname from pg_proc where pronamespace = 'hudhud'::regnamespace"
        " and has_function_privilege(current_user, oid, 'execute')"
    )
    assert runnable == ["enqueue"]
    with shop.refused("42501", "enqueue_many"):
        shop.call("enqueue_many", types=["mail"], payloads=[{}])
    with shop.refused("42501", "write_end"):
        shop.value("select hudhud.write_end(null, 1, 1::smallint, null, now(), now(), 'fail')")


def test_it_cannot_slip_its_own_objects_under_a_verb(shop: Verbs) -> None:
    shop.connection.execute(
        "create temp table job (like pg_class); create temp table setting (n integer);"
        " create function pg_temp.clock_timestamp() returns timestamptz language sql"
        " as $$ select timestamptz '2000-01-01' $$;"
        " set local search_path = pg_temp, public"
    )
    job_id = shop.enqueue()
    assert shop.value("select count(*) from pg_temp.job") == 0
    assert job_id.version == 7


def test_nobody_runs_anything_that_was_not_granted(db: Verbs) -> None:
    public = db.values(
        "select distinct proname"
        " from pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner)))"
        " where pronamespace = 'hudhud'::regnamespace and grantee = 0"
    )
    assert public == []
    granted = db.values(
        "select relname from pg_class, aclexplode(relacl)"
        " where relnamespace = 'hudhud'::regnamespace and grantee = 0"
    )
    assert granted == []
    assert db.value("select has_schema_privilege('public', 'hudhud', 'usage')") is False


def test_what_runs_with_the_owners_rights_has_a_fixed_search_path(db: Verbs) -> None:
    loose = db.values(
        "select proname from pg_proc where pronamespace = 'hudhud'::regnamespace and prosecdef"
        " and not coalesce(proconfig @> array['search_path=pg_catalog, pg_temp'], false)"
    )
    assert loose == []


def test_the_owner_needs_no_superuser(db: Verbs) -> None:
    owner = db.row("select rolsuper, rolcreaterole, rolcreatedb from pg_roles where rolname = user")
    assert owner == (False, False, False)
