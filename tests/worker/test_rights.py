"""What a worker's role needs at the database: the schema's functions, and its version."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hudhud.store import migrate
from hudhud.worker.context import Context  # noqa: TC001 - read by the handler's signature
from tests.support.application import Application, working
from tests.support.jobs import watching

if TYPE_CHECKING:
    from tests.support.server import Server


async def test_a_worker_needs_execute_and_no_table_but_the_version(
    server: Server, database: str
) -> None:
    """A stolen password of it reads no payload that it does not claim, and writes no history."""
    application = Application()

    @application.handler("step")
    async def step(ctx: Context, *, fails: bool) -> str:
        ctx.log("begins")
        ctx.progress(0.5)
        async with ctx.transaction() as connection:
            await connection.execute("select 1")
            if fails:
                message = "as asked"
                raise ValueError(message)
        return "done"

    role = f"worker_{uuid.uuid4().hex}"
    name = str(conninfo_to_dict(database)["dbname"])
    with psycopg.connect(server.admin(name), autocommit=True) as admin:
        for statement in (
            f"create role {role} login",
            f"grant usage on schema hudhud to {role}",
            f"grant execute on all functions in schema hudhud to {role}",
            f"grant select on hudhud.schema_version to {role}",
        ):
            admin.execute(statement.encode())
        # Past a pooler, which would have to know the role.
        dsn = make_conninfo(server.admin(name), user=role)
        with psycopg.connect(dsn) as connection:
            migrate.require_current(connection)
        try:
            async with watching(database) as jobs, working(application, dsn):
                made = await jobs.add_many("step", [{"fails": False}, {"fails": True}])
                assert await jobs.until_ended(made[0]) == ["succeeded"]
                await jobs.until(
                    "select exists (select from hudhud.outcome where outcome = 'retry')"
                )
                tables = await jobs.value(
                    "select array_agg(relname) from pg_class c"
                    " where relnamespace = 'hudhud'::regnamespace"
                    " and has_table_privilege(%s, c.oid, 'select') and relkind in ('r', 'p', 'v')",
                    role,
                )
                assert tables == ["schema_version"]
        finally:
            admin.execute(f"drop owned by {role}; drop role {role}".encode())
